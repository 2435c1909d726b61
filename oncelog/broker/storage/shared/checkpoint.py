"""When what the journal holds is copied into chunks, and what that takes.

Owns: the logs that have grown since the last checkpoint, and the one that is in flight. Invariant: a checkpoint of a
round has of each log what that round made durable, and no later producers: it is taken in the turn in which nothing
else is appended, and written once the round is committed.
"""

from collections.abc import Callable
from typing import NamedTuple

from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.shared.chunks import ChunkCache, ChunkWriter
from oncelog.broker.storage.shared.log import SharedLog, SharedSegment
from oncelog.broker.storage.shared.tables import Checkpoint, LogRow, NewChunk
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule

_CHECKPOINT_MS = 10_000


class TakenCheckpoint(NamedTuple):
    """The state of the logs that have grown, at the end of a round."""

    number: int
    half: int
    """Where later rounds go."""
    logs: "list[tuple[SharedLog, LogRow]]"


class Checkpoints:
    def __init__(
        self,
        epoch: int,
        writer: ChunkWriter,
        cache: ChunkCache,
        clock: Clock,
        limit_bytes: int,
        journal_bytes: int,
        half: int,
    ) -> None:
        """One is due when the journal, which has `journal_bytes` already, has `limit_bytes`."""
        self._epoch = epoch
        self._writer = writer
        self._cache = cache
        self._limit_bytes = limit_bytes
        self._journal_bytes = journal_bytes
        self._grown: dict[SharedLog, None] = {}
        self._schedule = Schedule(clock, first_in_ms=_CHECKPOINT_MS)
        self._is_in_flight = False
        self.half = half
        """Of the journal, to which the next round goes."""

    def on_growth(self, log: SharedLog, size_bytes: int) -> None:
        self._grown[log] = None
        self._journal_bytes += size_bytes

    def take(self, number: int) -> TakenCheckpoint | None:
        """If one is due: the state at the end of this round, to which everything appended so far belongs."""
        if self._is_in_flight or not self._grown:
            return None
        if self._journal_bytes < self._limit_bytes and not self._schedule.take(_CHECKPOINT_MS):
            return None
        self._is_in_flight = True
        grown, self._grown, self._journal_bytes = self._grown, {}, 0
        self.half = 1 - self.half
        return TakenCheckpoint(number, self.half, [(log, _row(log)) for log in grown if not log.is_closed])

    def statement(self, taken: TakenCheckpoint) -> tuple[Checkpoint, Callable[[], None]]:
        """What to write, now that the round is committed, and what to do once it has happened."""
        moved: list[tuple[SharedLog, SharedSegment, list[NewChunk]]] = []
        logs = [(log, row) for log, row in taken.logs if not log.is_closed]
        for log, row in logs:
            moved += [(log, *new) for new in log.new_chunks(row.next_offset, self._writer)]
        chunks = [chunk for _, _, new in moved for chunk in new]

        def on_written() -> None:
            self._is_in_flight = False
            for log, segment, new in moved:
                if segment in log.segments:
                    segment.move_tail([row for row, _ in new])
                    self._cache.keep_written(new)
            for log, row in logs:
                log.checkpointed = row.next_offset

        return Checkpoint(self._epoch, taken.number, taken.half, [row for _, row in logs], chunks), on_written


def _row(log: SharedLog) -> LogRow:
    snapshot = encode_snapshot(log.opened.producer_state)
    return LogRow(log.key, log.topic, log.log_end_offset, log.epochs, snapshot.rows, snapshot.batches)
