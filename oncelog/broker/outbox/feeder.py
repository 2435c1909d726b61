"""Takes rows that SQL transactions have produced, and appends them to their logs.

Owns: when rows are looked for. Does not own: what becomes of each (`rows`), the statement that deletes them
(`storage.shared.outbox`). Invariants
- One look's rows are in flight at a time: a look that finds rows of a round in flight would take them twice.
- Whatever a turn appends, the round of that turn deletes its rows: nothing comes in between.
- What wakes it may be missed: it looks every `_POLL_MS`, and at once after a look that has found rows.
- A row that makes PostgreSQL fail each look with it holds up no others: it is found by looking at the rows one by one,
  and moved aside inside PostgreSQL, without what PostgreSQL itself cannot read, or left if that fails, too. Any other
  failure, of a look or of a move, is reported, and looked at again.

Records are as those of a producer without a transaction, uncompressed, with the time at which they were produced. No
quota holds them back, and no access-control list is asked: who may produce them is a right in PostgreSQL.
"""

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.log.partition_log import AppendOrigin, PartitionLog
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.outbox.rows import Place, pieces_of, sort_rows
from oncelog.broker.storage.shared.store import SharedLogStore
from oncelog.broker.storage.shared.tables import LARGEST_BYTES, OutboxRow, WaitingRows
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.ports import Clock, Scheduler, Timer, WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.records.batch import encode_batch

_POLL_MS = 250
_FAILED_MS = 1_000
"""How long after a look that failed the next one is."""
_LOOK_ROWS = 1_000
_LOOK_BYTES = 1024 * 1024
"""How much of a look one turn of the loop appends. Measured: 1,000 rows of 100 bytes take 4 ms."""
_PASSING = (
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,  # it is being deleted: the next look finds no topic
)
"""A log that says so takes the same rows later, or there is no such log then."""


class LookListener(Protocol):
    def on_failed(self, error: str) -> None:
        """A look has failed, and will be repeated."""

    def on_passed(self) -> None:
        """A look has passed."""

    def on_unreadable(self, row_id: int, error: str) -> None:
        """This row made looks fail, and is moved aside."""

    def on_left(self, row_id: int, error: str) -> None:
        """This row cannot be moved aside, and is left where it is."""


class Feeder:
    def __init__(
        self,
        store: SharedLogStore,
        topics: Topics,
        metrics: Metrics,
        clock: Clock,
        scheduler: Scheduler,
        look_rows: int = _LOOK_ROWS,
        listener: LookListener | None = None,
    ) -> None:
        """`look_rows` is how many a look takes at most."""
        self._outbox = store.outbox
        self._topics = topics
        self._metrics = metrics
        self._clock = clock
        self._scheduler = scheduler
        self._look_rows = look_rows
        self._listener = listener
        self._is_busy = False
        """Whether a look, or what became of its rows, is in flight."""
        self._is_woken = False
        self._timer: Timer | None = None
        self._looks = 0
        self._is_over = False
        store.watch_failure(self.stop)
        self._outbox.watch(self._wake, self._on_left)

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        """Take no more rows. Those of a round in flight are its own."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _wake(self) -> None:
        self._is_woken = True
        if not self._is_busy and self._timer is not None:  # it was started
            self._timer.cancel()
            self._look()

    def _look(self) -> None:
        if self._is_over:
            return
        self._is_busy, self._is_woken = True, False
        self._outbox.look(self._look_rows, _LOOK_BYTES, LARGEST_BYTES).then(self._on_seen)

    def _on_seen(self, seen: Completion[WaitingRows]) -> None:
        if self._is_over:
            return
        if seen.error is not None:
            self._on_failed(str(seen.error))
            return
        if seen.result().problem:
            self._find_unreadable()
            return
        if self._listener is not None:
            self._listener.on_passed()
        rows = seen.result().rows
        in_flight = self._feed(rows) if rows else []
        all_of(in_flight).then(lambda ended: self._on_ended(ended, has_some=bool(in_flight)))

    def _on_ended(self, ended: Completion[list[None]], *, has_some: bool) -> None:
        """`has_some`: without any there are no rows, or their logs cannot be written now."""
        if ended.error is not None:  # a move: the rows are found again
            self._on_failed(str(ended.error))
        else:
            self._end_look(may_be_more=has_some)

    def _on_left(self, row_id: int, error: str) -> None:
        if self._listener is not None:
            self._listener.on_left(row_id, error)

    def _on_failed(self, error: str) -> None:
        if self._is_over:
            return
        if self._listener is not None:
            self._listener.on_failed(error)
        self._is_busy = False
        self._timer = self._scheduler.call_later(_FAILED_MS, self._look)

    def _end_look(self, *, may_be_more: bool) -> None:
        self._is_busy = False
        if self._is_over:
            return
        if may_be_more or self._is_woken:
            self._look()
        else:
            self._timer = self._scheduler.call_later(_POLL_MS, self._look)

    # --- a row that cannot be read ------------------------------------------------------------------------------------

    def _find_unreadable(self) -> None:
        """Look at the rows of a look one by one. None is appended meanwhile: those of a partition stay in order."""

        def on_ids(found: Completion[Sequence[int]]) -> None:
            if found.error is not None:
                self._on_failed(str(found.error))
            else:
                self._look_at_one(deque(found.result()))

        self._outbox.ids(self._look_rows).then(on_ids)

    def _look_at_one(self, ids: deque[int]) -> None:
        if self._is_over:
            return
        if not ids:  # it is gone, or can be read now
            self._end_look(may_be_more=True)
            return
        row_id = ids.popleft()

        def on_seen(seen: Completion[WaitingRows]) -> None:
            if seen.error is not None:
                self._on_failed(str(seen.error))
            elif problem := seen.result().problem:
                self._refuse_unreadable(row_id, problem)
            else:
                self._look_at_one(ids)

        self._outbox.look(1, _LOOK_BYTES, LARGEST_BYTES, (row_id,)).then(on_seen)

    def _refuse_unreadable(self, row_id: int, problem: str) -> None:
        if self._is_over:
            return
        if self._listener is not None:
            self._listener.on_unreadable(row_id, problem)

        def on_refused(refused: Completion[None]) -> None:
            if refused.error is not None:
                self._on_failed(str(refused.error))
            else:
                self._end_look(may_be_more=True)

        self._outbox.refuse([(row_id, f"it cannot be read: {problem}")]).then(on_refused)

    # ------------------------------------------------------------------------------------------------------------------

    def _feed(self, rows: Sequence[OutboxRow]) -> list[Completion[None]]:
        """Append what can be appended, in this turn; returns what the next look has to wait for."""
        self._looks += 1
        found = sort_rows(rows, self._topics.get, self._looks)
        taken: list[int] = []
        refused = list(found.refused)
        in_flight: list[Completion[None]] = []
        try:
            for place, of_place in found.rows.items():
                self._append(place, of_place, taken, refused)
        finally:  # whatever happens: what was appended is deleted
            if taken:
                in_flight.append(self._outbox.take(taken))
        if refused:
            in_flight.append(self._outbox.refuse(refused))
        return in_flight

    def _append(
        self, place: Place, rows: Sequence[OutboxRow], taken: list[int], refused: list[tuple[int, str]]
    ) -> None:
        """Rows of one partition, up to the first that has to wait."""
        log = self._topics.find_partition(*place)
        if log is None:  # it is being opened
            return
        if log.offline_error is not None:
            refused += [(row.id, log.offline_error) for row in rows]
            return
        wall_ms = self._clock.wall_ms()
        pieces, of_pieces = pieces_of(rows, log.config, wall_ms)
        refused += of_pieces
        for ids, records in pieces:
            batch = memoryview(encode_batch(records))
            try:
                self._append_batch(log, batch, wall_ms)
            except KafkaError as error:
                if error.code in _PASSING:
                    return
                refused += [(row_id, str(error)) for row_id in ids]
            else:
                taken += ids

    def _append_batch(self, log: PartitionLog, batch: memoryview, wall_ms: WallMs) -> None:
        """Raises KafkaError."""
        log.append(batch, wall_ms=wall_ms, origin=AppendOrigin.COORDINATOR)
        self._metrics.appends += 1
        self._metrics.append_bytes += len(batch)
