"""When what the journal holds is copied into chunks, and what that takes.

Owns: the logs that have grown since the last checkpoint, and the one that is in flight. Invariants
- A checkpoint of a round has of each log what that round made durable, and no later producers: the state of a log is
  noted when the checkpoint is taken, or later, before anything else is appended to it.
- The loop is never held: chunks are made one by one, when the driver of the database takes them. It may ask for them
  again, and gets the same.
- No batch is copied to stay in memory: what was written goes to the cache as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.producer_snapshot import encode_snapshot
from oncelog.broker.storage.shared.chunks import ChunkCache, ChunkWriter
from oncelog.broker.storage.shared.log import SharedLog, SharedSegment
from oncelog.broker.storage.shared.tables import Checkpoint, ChunkRow, LogRow, NewChunk
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced

T = TypeVar("T")
_CHECKPOINT_MS = 10_000
"""How long a good part of the limit stays in the journal."""
_AWAITED_CHECKPOINT_MS = 3_000
"""How long it does while a node stands by: clients wait for that one to read the journal before it leads."""
_GOOD_PART = 64
_LONGEST_MS = 300_000
"""How long anything does. A start replays little; what is written more often becomes many small chunks."""
_MOVED_ELEMENTS = 4
"""Measured: up to 15 µs for a log with one chunk."""


class NotedLog(NamedTuple):
    """The state of a log at the end of a round."""

    row: LogRow
    pieces: list[tuple[SharedSegment, list[MemorySegment]]]
    """The batches that are in no chunk yet, by segment: each piece becomes one."""


class TakenCheckpoint:
    """The logs that have grown, at the end of a round."""

    def __init__(self, number: int, half: int, logs: list[SharedLog]) -> None:
        self.number = number
        self.half = half
        """Where later rounds go."""
        self.logs = logs
        self.rows: dict[MemorySegment, ChunkRow] = {}
        """The chunks that were made."""
        self._noted: dict[SharedLog, NotedLog] = {}
        for log in logs:
            log.before_change = self._note

    def _note(self, log: SharedLog) -> None:
        log.before_change = None
        self._noted[log] = NotedLog(_row(log), log.seal())

    def noted(self, log: SharedLog) -> NotedLog:
        if log not in self._noted:
            self._note(log)
        return self._noted[log]


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
        self._clock = clock
        self._limit_bytes = limit_bytes
        self._journal_bytes = journal_bytes
        self._grown: dict[SharedLog, None] = {}
        self._grown_ms = clock.monotonic_ms()
        """When the first of them grew."""
        self._is_in_flight = False
        self.is_awaited = False
        """Whether another node stands by: it reads the journal before it leads."""
        self.written_count = self.written_bytes = 0
        self.written_at_ms = self._grown_ms
        """When the newest checkpoint was written."""
        self.half = half
        """The half of the journal to which the next round goes."""

    def on_growth(self, log: SharedLog, size_bytes: int) -> None:
        if not self._grown:
            self._grown_ms = self._clock.monotonic_ms()
        self._grown[log] = None
        self._journal_bytes += size_bytes

    @property
    def journal_bytes(self) -> int:
        """The bytes of the journal that are in no checkpoint, not even the one in flight."""
        return self._journal_bytes

    @property
    def is_behind(self) -> bool:
        """Whether rounds must wait for the checkpoint in flight: enough for the next one has come since."""
        return self._is_in_flight and self._journal_bytes >= self._limit_bytes

    def take(self, number: int) -> TakenCheckpoint | None:
        """Begin a checkpoint at the end of this round, which holds everything appended so far; None if none is due."""
        if self._is_in_flight or not self._grown or not self._is_due():
            return None
        self._is_in_flight = True
        grown, self._grown, self._journal_bytes = self._grown, {}, 0
        self.half = 1 - self.half
        return TakenCheckpoint(number, self.half, [log for log in grown if not log.is_closed])

    def _is_due(self) -> bool:
        if self._journal_bytes >= self._limit_bytes:
            return True
        is_good_part = self._journal_bytes * _GOOD_PART >= self._limit_bytes
        good_part_ms = _AWAITED_CHECKPOINT_MS if self.is_awaited else _CHECKPOINT_MS
        return self._clock.monotonic_ms() - self._grown_ms >= (good_part_ms if is_good_part else _LONGEST_MS)

    def statement(self, taken: TakenCheckpoint) -> tuple[Checkpoint, Callable[[], Sliced[None]]]:
        """Return the statement to send once the round is committed, and what to call once it is committed itself. Logs
        and segments that were deleted meanwhile are left out."""

        def rows() -> Iterator[LogRow]:
            for log in taken.logs:
                if not log.is_closed:
                    yield taken.noted(log).row

        def chunks() -> Iterator[NewChunk]:
            for log in taken.logs:
                for segment, pieces in taken.noted(log).pieces:
                    for piece in pieces:
                        if not log.is_closed and log.holds(segment):
                            yield self._chunk(taken, log, segment, piece)

        written = Checkpoint(self._epoch, taken.number, taken.half, _Again(rows), _Again(chunks))
        return written, lambda: self._on_written(taken)

    def _chunk(self, taken: TakenCheckpoint, log: SharedLog, segment: SharedSegment, piece: MemorySegment) -> NewChunk:
        row = taken.rows.get(piece)
        if row is not None:
            return NewChunk(row, b"".join(piece.batches))
        chunk = self._writer.whole(log.key, segment, piece)
        taken.rows[piece] = chunk.row
        return chunk

    def _on_written(self, taken: TakenCheckpoint) -> Sliced[None]:
        for log in taken.logs:
            if log.is_closed:
                continue
            row, noted = taken.noted(log)
            for segment, pieces in noted:
                chunk_rows = [taken.rows[piece] for piece in pieces if piece in taken.rows]
                if not log.holds(segment):
                    log.drop(chunk_rows)
                    continue
                segment.on_written(chunk_rows)
                for chunk_row, piece in zip(chunk_rows, pieces, strict=True):
                    self._cache.keep_written(chunk_row, piece)
            log.checkpointed = row.next_offset
            yield _MOVED_ELEMENTS
        self._is_in_flight = False
        self.is_awaited = False
        self.written_count += 1
        self.written_bytes += sum([row.size_bytes for row in taken.rows.values()])
        self.written_at_ms = self._clock.monotonic_ms()


class _Again(Generic[T], Iterable[T]):
    """An iterable that starts again each time: a statement is sent until it is answered."""

    def __init__(self, begin: Callable[[], Iterator[T]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[T]:
        return self._begin()


def _row(log: SharedLog) -> LogRow:
    snapshot = encode_snapshot(log.opened.producer_state)
    epochs = tuple(epoch for epoch in log.epochs if epoch[1] < log.log_end_offset)
    return LogRow(log.key, log.topic, log.log_end_offset, epochs, snapshot.rows, snapshot.batches)
