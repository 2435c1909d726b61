"""The rows that SQL transactions of the same database produce, as the leader takes them.

Owns: which rows the next round deletes. Does not own: what becomes of a row, and when one is looked for
(`broker.outbox`), the statement of a round (`store`). Invariants
- A row is deleted by the statement that writes the round with its record, or by the one that moves it to the refused
  ones: its record is durable exactly if it is gone.
- Both hold the lease. A broker that has lost it has taken nothing, whatever it has in memory.
"""

from collections.abc import Callable, Mapping, Sequence

from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ListOutbox, LookAtOutbox, RefuseRows, WaitingRows
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock


class SharedOutbox:
    def __init__(
        self, epoch: int, statements: Statements, clock: Clock, next_round: Callable[[], Completion[None]]
    ) -> None:
        """`next_round` completes when the round has ended that is sent next."""
        self._epoch = epoch
        self._statements = statements
        self._clock = clock
        self._next_round = next_round
        self._ids: list[int] = []
        """The rows of the next round."""
        self._taken_count = self._refused_count = self._failed_count = 0
        self._on_rows: Callable[[], None] | None = None
        self._waiting_since_ms: float | None = None

    def watch(self, on_rows: Callable[[], None]) -> None:
        """Call `on_rows` when there may be some; it may be missed."""
        self._on_rows = on_rows

    def notify(self) -> None:
        """The database says that there may be some."""
        if self._on_rows is not None:
            self._on_rows()

    def look(
        self, row_count: int, size_bytes: int, largest_bytes: int, ids: tuple[int, ...] | None = None
    ) -> Completion[WaitingRows]:
        """The first rows that wait, those of the next round among them; of `ids`, if some are named. Fails with
        OSError."""

        def on_seen(answer: Completion[WaitingRows]) -> None:
            if answer.error is not None or answer.result().problem:
                self._failed_count += 1
            elif ids is None:
                seen = answer.result()
                self._waiting_since_ms = self._clock.monotonic_ms() - seen.waited_ms if seen.rows else None

        looked = self._statements.ask(LookAtOutbox(row_count, size_bytes, largest_bytes, ids))
        looked.then(on_seen)
        return looked

    def ids(self, row_count: int) -> Completion[Sequence[int]]:
        """The ids of the first rows that wait. Fails with OSError."""
        return self._statements.ask(ListOutbox(row_count))

    def take(self, ids: Sequence[int]) -> Completion[None]:
        """The next round deletes these rows. Call it in the turn in which their records were appended. Completes when
        that round has ended, written or not."""
        self._ids += ids
        self._taken_count += len(ids)
        return self._next_round()

    def take_ids(self) -> tuple[int, ...]:
        """The rows of the round that is sent now."""
        ids, self._ids = tuple(self._ids), []
        return ids

    def refuse(self, reasons: Sequence[tuple[int, str]]) -> Completion[None]:
        """Move these rows to the refused ones. Fails with OSError: then they may wait still. It has a statement of its
        own, as nothing in a round depends on it."""
        self._refused_count += len(reasons)
        return self._statements.write(RefuseRows(self._epoch, tuple(reasons)))

    def figures(self) -> Mapping[str, float]:
        since_ms = self._waiting_since_ms
        return {
            "outbox_rows": self._taken_count,
            "outbox_refused_rows": self._refused_count,
            "outbox_failed_looks": self._failed_count,
            "outbox_wait_seconds": 0 if since_ms is None else (self._clock.monotonic_ms() - since_ms) / 1000,
        }
