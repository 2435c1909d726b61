"""The rows that SQL transactions of the same database produce, as the leader takes them.

Owns: which rows the next round deletes. Does not own: what becomes of a row, and when one is looked for
(`broker.outbox`), the statement of a round (`store`). Invariants
- A row is deleted by the statement that writes the round with its record, or by the one that moves it to the refused
  ones: its record is durable exactly if it is gone.
- Both hold the lease. A broker that has lost it has taken nothing, whatever it has in memory.
- A row that can be neither read nor moved holds up no others: at the second error it is left where it is, and looks
  pass it by for `_LEFT_MS`.
"""

from collections.abc import Callable, Mapping, Sequence

from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import Failing, ListOutbox, LookAtOutbox, RefuseRows, WaitingRows
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.ports import Clock

_LEFT_MS = 600_000
_MOST_LEFT = 10_000
"""How many rows a look passes by: with more the looks fail, and nothing is taken."""


class SharedOutbox:
    def __init__(
        self, epoch: int, statements: Statements, clock: Clock, next_round: Callable[[], Completion[None]]
    ) -> None:
        """`next_round` completes when the round that is sent next has ended."""
        self._epoch = epoch
        self._statements = statements
        self._clock = clock
        self._next_round = next_round
        self._ids: list[int] = []
        """The rows of the next round."""
        self._taken_count = self._refused_count = self._failed_count = 0
        self._on_rows: Callable[[], None] | None = None
        self._on_left: Callable[[int, str], None] | None = None
        self._left: set[int] = set()
        """The rows that looks pass by."""
        self._left_since_ms: float = 0
        self._waiting_since_ms: float | None = None

    def watch(self, on_rows: Callable[[], None], on_left: Callable[[int, str], None]) -> None:
        """Call `on_rows` when rows may be waiting; a call may be missed. Call `on_left` with a row that is left, and
        why."""
        self._on_rows, self._on_left = on_rows, on_left

    def notify(self) -> None:
        """Pass on the database's notification that rows may be waiting."""
        if self._on_rows is not None:
            self._on_rows()

    def look(
        self, row_count: int, size_bytes: int, largest_bytes: int, ids: tuple[int, ...] | None = None
    ) -> Completion[WaitingRows]:
        """Read the first rows that wait, those of the next round included; only those of `ids`, if given. Fails with
        OSError."""

        def on_seen(answer: Completion[WaitingRows]) -> None:
            if answer.error is not None or answer.result().problem:
                self._failed_count += 1
            elif ids is None:
                seen = answer.result()
                self._waiting_since_ms = self._clock.monotonic_ms() - seen.waited_ms if seen.rows else None

        if self._left and self._clock.monotonic_ms() - self._left_since_ms >= _LEFT_MS:
            self._left.clear()
        looked = self._statements.ask(LookAtOutbox(row_count, size_bytes, largest_bytes, ids, tuple(self._left)))
        looked.then(on_seen)
        return looked

    def ids(self, row_count: int) -> Completion[Sequence[int]]:
        """List the ids of the first rows that wait. Fails with OSError."""
        return self._statements.ask(ListOutbox(row_count, tuple(self._left)))

    def take(self, ids: Sequence[int]) -> Completion[None]:
        """Delete these rows with the next round. Call it in the turn in which their records were appended. Completes
        when that round has ended, written or not."""
        self._ids += ids
        self._taken_count += len(ids)
        return self._next_round()

    def take_ids(self) -> tuple[int, ...]:
        """Return the rows of the round that is sent now, and forget them."""
        ids, self._ids = tuple(self._ids), []
        return ids

    def refuse(self, reasons: Sequence[tuple[int, str]]) -> Completion[None]:
        """Move these rows to the refused ones, by a statement of its own, as no round depends on it. If the database
        fails at that, each row is moved alone. Fails with OSError: then they may still wait."""
        return self._refuse(reasons, is_last=False)

    def _refuse(self, reasons: Sequence[tuple[int, str]], *, is_last: bool) -> Completion[None]:
        ended: Completion[None] = Completion()

        def on_moved(moved: Completion[None]) -> None:
            if moved.error is None:
                self._refused_count += len(reasons)
                ended.complete(None)
                return
            self._failed_count += 1
            if not isinstance(moved.error, Failing) or len(self._left) >= _MOST_LEFT:
                ended.fail(moved.error)
            elif is_last:
                self._leave(reasons[0][0], str(moved.error))
                ended.complete(None)
            else:
                alone = all_of([self._refuse([each], is_last=True) for each in reasons])
                alone.then(lambda done: ended.fail(done.error) if done.error else ended.complete(None))

        self._statements.write(RefuseRows(self._epoch, tuple(reasons))).then(on_moved)
        return ended

    def _leave(self, row_id: int, error: str) -> None:
        if not self._left:
            self._left_since_ms = self._clock.monotonic_ms()
        self._left.add(row_id)
        if self._on_left is not None:
            self._on_left(row_id, error)

    def figures(self) -> Mapping[str, float]:
        since_ms = self._waiting_since_ms
        return {
            "outbox_rows": self._taken_count,
            "outbox_refused_rows": self._refused_count,
            "outbox_failed_looks": self._failed_count,
            "outbox_left_rows": len(self._left),
            "outbox_wait_seconds": 0 if since_ms is None else (self._clock.monotonic_ms() - since_ms) / 1000,
        }
