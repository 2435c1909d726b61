"""One round of compaction over one log in tables: a CompactionRound.

Owns: the work in slices. Invariants
- What is left of a group of segments is written aside, chunk by chunk (`aside`). One statement then puts it in the
  place of the group; until that is answered the old chunks are read.
- In memory are the keys, one chunk that is read and one that is written, however large the segments are.
"""

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from oncelog.broker.log.store import LogView, StoreDamagedError, StoreError
from oncelog.broker.storage.compaction.batch_filter import BatchFilter, known_producers
from oncelog.broker.storage.compaction.cleaner import RoundResult, Slice
from oncelog.broker.storage.compaction.offset_map import OffsetMap
from oncelog.broker.storage.compaction.transactions import AbortedTransactions, CleanedTransactions
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.shared.aside import Aside
from oncelog.broker.storage.shared.chunks import ChunkWriter
from oncelog.broker.storage.shared.log import SharedLog, SharedSegment
from oncelog.broker.storage.shared.tables import ChunkRow, NewChunk
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import MonotonicMs, WallMs

_NEVER = MonotonicMs(0)
T = TypeVar("T")
_SLICE_BYTES = 64 * 1024


class SharedCompactionRound:
    def __init__(
        self, view: LogView, log: SharedLog, dirty_offset: int, end_offset: int, memory_bytes: int, aside: Aside
    ) -> None:
        self._view = view
        self._log = log
        self._dirty_offset = dirty_offset
        self._end_offset = end_offset
        self._map = OffsetMap(memory_bytes)
        self._aside = aside
        self.result = RoundResult(self._map.undecodable, clean_offset=dirty_offset)

    def slices(self, wall_ms: WallMs) -> Generator[Slice, None, None]:
        try:
            yield from self._work(wall_ms)
        except StoreDamagedError as damage:
            self._log.on_damage(str(damage))
        except StoreError:
            return  # the database does not answer; a later round tries again

    def _work(self, wall_ms: WallMs) -> Generator[Slice, None, None]:
        log, offset_map = self._log, self._map
        aborted = AbortedTransactions(entry for segment in log.segments for entry in segment.transaction_index.entries)
        producers = known_producers(self._view.producer_state)
        yield from _until_done(self._aside.clear())
        yield from self._read_keys(aborted)
        clean_offset = offset_map.latest_offset + 1
        if clean_offset <= self._dirty_offset:
            return
        batch_filter = BatchFilter(
            offset_map,
            CleanedTransactions(aborted),
            producers,
            self._end_offset,
            wall_ms,
            self._view.config.delete_retention_ms,
        )
        segments = [segment for segment in log.segments if segment.base_offset < clean_offset]
        segments = [segment for segment in segments if segment.next_offset <= self._end_offset]
        for group in _groups(segments, self._view.config.segment_bytes):
            rows = yield from self._clean(group, batch_filter)
            if log.is_closed or not all(segment in log.segments for segment in group):
                return
            old = tuple(row.id for segment in group for row in segment.chunks)
            added = tuple(row.id for row in rows)
            placed = self._aside.put_in_place(lambda old=old, added=added: (old, added))  # type: ignore[misc]
            yield from _until_done(log.replace(group, rows, placed))
        self.result.clean_offset = clean_offset
        self.result.is_complete = True

    def _read_keys(self, aborted: AbortedTransactions) -> Generator[Slice, None, None]:
        offset_map, left = self._map, _SLICE_BYTES
        for piece in self._log.replay(self._dirty_offset, self._end_offset):
            for header, batch in (yield from _awaited(piece)):
                if not offset_map.read(header, batch, aborted):
                    return
                self.result.bytes_read += len(batch)
                left -= len(batch)
                if left <= 0:
                    left = _SLICE_BYTES
                    yield None
        offset_map.latest_offset = max(offset_map.latest_offset, self._end_offset - 1)

    def _clean(
        self, group: Sequence[SharedSegment], batch_filter: BatchFilter
    ) -> Generator[Slice, None, list[ChunkRow]]:
        """What is left of a group of segments; it is written aside."""
        output = _Output(self._log, group[0], self._aside.writer)
        batch_filter.transactions.on_snapshot(set(group[0].open_producers))
        left = _SLICE_BYTES
        for piece in self._log.replay(group[0].base_offset, group[-1].next_offset):
            for header, batch in (yield from _awaited(piece)):
                remainder = batch_filter.prepare(header, batch)
                if remainder is not None:
                    if output.is_full(len(remainder.data)):
                        yield from self._write(output.take(output.next_offset))
                    timestamp = remainder.max_timestamp if remainder.record_count else -1
                    output.append(bytes(remainder.data), header.next_offset, timestamp)
                    for entry in batch_filter.transactions.take_kept():
                        output.transaction_index.append(entry)
                self.result.bytes_read += len(batch)
                left -= len(batch)
                if left <= 0:
                    left = _SLICE_BYTES
                    yield None
        yield from self._write(output.take(group[-1].next_offset))
        return output.rows

    def _write(self, chunks: Sequence[NewChunk]) -> Generator[Slice, None, None]:
        yield from _until_done(self._aside.add(chunks))
        self.result.bytes_written += sum(row.size_bytes for row, _ in chunks)


class _Output:
    """What is left of a group of segments, chunk by chunk; it is the Segment of them all."""

    def __init__(self, log: SharedLog, first: SharedSegment, writer: ChunkWriter) -> None:
        self.base_offset = first.base_offset
        self.open_producers = first.open_producers
        self.first_timestamp = -1
        self.transaction_index = TransactionIndex()
        self.rows: list[ChunkRow] = []
        self._key = log.key
        self._writer = writer
        self._begin(first.base_offset)

    def _begin(self, offset: int) -> None:
        self._part = MemorySegment(offset, self.open_producers, _NEVER)

    @property
    def next_offset(self) -> int:
        return self._part.next_offset

    def is_full(self, size_bytes: int) -> bool:
        """Whether one more batch of this size begins a new chunk."""
        return self._part.size_bytes > 0 and self._part.size_bytes + size_bytes > self._writer.chunk_bytes

    def append(self, batch: bytes, next_offset: int, timestamp: int) -> None:
        if not self.rows and not self._part.size_bytes:
            self.first_timestamp = timestamp
        self._part.append(batch, next_offset, timestamp)

    def take(self, end_offset: int) -> list[NewChunk]:
        """The next chunk, which ends there."""
        new = self._writer.split(self._key, self, self._part, end_offset)
        self.rows += [row for row, _ in new]
        self.transaction_index = TransactionIndex()  # the next marker is in the next chunk
        self._begin(end_offset)
        return new


def _groups(segments: Sequence[SharedSegment], segment_bytes: int) -> list[list[SharedSegment]]:
    """Adjacent segments that fit into one: otherwise compaction leaves many small ones."""
    groups: list[list[SharedSegment]] = []
    size_bytes = 0
    for segment in segments:
        if not groups or size_bytes + segment.size_bytes > segment_bytes:
            groups.append([])
            size_bytes = 0
        groups[-1].append(segment)
        size_bytes += segment.size_bytes
    return groups


def _awaited(value: T | Completion[T]) -> Generator[Slice, None, T]:
    if not isinstance(value, Completion):
        return value
    yield from _until_done(value)
    return value.result()


def _until_done(value: Completion[Any]) -> Generator[Slice, None, None]:
    while not value.done:
        yield value
    value.result()
