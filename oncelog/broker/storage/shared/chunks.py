"""Chunks of batches: what is known of each, and the batches of those that were written or read last.

Owns: the memory that batches outside the tails take. Invariants
- It is bounded. Held are at most `written_bytes` of what was written, which most readers want, `fetched_bytes` of what
  was fetched, and what is on its way (`fetches`). A single scan of all chunks evicts neither what was written nor what
  is read again: each has a part of its own.
- A reader that waits for a chunk holds nothing of it. An answer holds its batches (`batches`), and its sender counts
  them.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.batches import ChunkBatches, HeldBatches
from oncelog.broker.storage.shared.fetches import Bounded, Fetches
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, NewChunk
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.checksum import crc32c

CHUNK_BYTES = 1024 * 1024
"""The largest chunk, unless a single batch is larger."""


class Segment(Protocol):
    """The fields of a segment that each of its chunks repeats."""

    base_offset: int
    first_timestamp: int
    open_producers: frozenset[int]
    transaction_index: TransactionIndex


class ChunkWriter:
    """Makes chunks of the batches of segments, with ids of its own."""

    def __init__(self, epoch: int, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self._last_id = epoch << 32

    def whole(self, key: LogKey, segment: Segment, batches: MemorySegment) -> NewChunk:
        """Return one chunk with all of `batches`, a part of the segment."""
        return self._chunk(key, segment, batches, slice(None), batches.base_offset, batches.next_offset)

    def split(self, key: LogKey, segment: Segment, batches: MemorySegment, end_offset: int) -> list[NewChunk]:
        """Return chunks, without a gap between them, with the batches below `end_offset` of `batches`, a part of the
        segment; an empty one if there are none."""
        chunks: list[NewChunk] = []
        base_offset, first, last, size_bytes = batches.base_offset, 0, 0, 0
        while last < len(batches.ends) and batches.ends[last] <= end_offset:
            batch_bytes = len(batches.batches[last])
            if size_bytes and size_bytes + batch_bytes > self.chunk_bytes:
                next_offset = batches.ends[last - 1]
                chunks.append(self._chunk(key, segment, batches, slice(first, last), base_offset, next_offset))
                base_offset, first, size_bytes = next_offset, last, 0
            size_bytes += batch_bytes
            last += 1
        chunks.append(self._chunk(key, segment, batches, slice(first, last), base_offset, end_offset))
        return chunks

    def joined(self, rows: Sequence[ChunkRow], body: bytes) -> NewChunk:
        """Return one chunk in the place of adjacent ones of a segment, with their batches."""
        self._last_id += 1
        row = rows[-1]._replace(
            id=self._last_id,
            base_offset=rows[0].base_offset,
            size_bytes=len(body),
            checksum=crc32c(body),
            max_timestamp=max([row.max_timestamp for row in rows]),
            aborted=b"".join([row.aborted for row in rows]),
        )
        return NewChunk(row, body)

    def _chunk(
        self, key: LogKey, segment: Segment, batches: MemorySegment, slots: slice, base_offset: int, next_offset: int
    ) -> NewChunk:
        body = b"".join(batches.batches[slots])
        aborted = segment.transaction_index.between(base_offset, next_offset)
        self._last_id += 1
        row = ChunkRow(
            key,
            self._last_id,
            segment.base_offset,
            base_offset,
            next_offset,
            len(body),
            crc32c(body),
            segment.first_timestamp,
            max(batches.timestamps[slots], default=-1),
            aborted.to_bytes(),
            tuple(sorted(segment.open_producers)),
        )
        return NewChunk(row, body)


class ChunkCache:
    def __init__(self, statements: Statements, written_bytes: int, fetched_bytes: int) -> None:
        """Hold at most so many bytes of chunks that were written, and of chunks that were fetched."""
        self._written: Bounded[ChunkBatches | MemorySegment] = Bounded(written_bytes)
        self._once: Bounded[ChunkBatches] = Bounded(fetched_bytes // 2)
        """Fetched, and read once or not yet."""
        self._again: Bounded[ChunkBatches] = Bounded(fetched_bytes // 2)
        """Fetched, and read again."""
        self._ahead: dict[int, int] = {}
        """The sizes of chunks that were prefetched and not read yet."""
        self._ahead_bytes = 0
        self._most_ahead_bytes = fetched_bytes // 4
        self.fetched_count = self.fetched_bytes = 0
        self._fetches = Fetches(statements, self._on_fetched)

    @property
    def held_bytes(self) -> int:
        return self._written.held_bytes + self._once.held_bytes + self._again.held_bytes

    def keep_written(self, row: ChunkRow, batches: MemorySegment) -> None:
        """Cache the batches of a chunk that was just written."""
        self._written.put(row.id, batches)

    def on_joined(self, rows: Sequence[ChunkRow], chunk: NewChunk) -> None:
        """Replace cached chunks by the one that they were joined to: they are not read any more."""
        was_written = [row.id in self._written for row in rows]
        for row in rows:
            self._written.take(row.id)
        if all(was_written):
            self._written.put(chunk.row.id, ChunkBatches(*chunk))

    def get(self, row: ChunkRow, offset: int) -> HeldBatches | Completion[ChunkBatches | None]:
        """Return the chunk's batches for a read from `offset`; None if it is gone. Fails with StoreError or
        StoreDamagedError."""
        if not row.size_bytes:
            return ChunkBatches(row, b"")
        written = self._written.get(row.id)
        if written is not None:
            return written
        found = self._again.get(row.id)
        if found is None:
            was_asked_ahead = self._is_no_more_ahead(row.id)
            found = self._once.get(row.id)
            if found is not None and not was_asked_ahead and offset <= row.base_offset:
                self._once.take(row.id)
                self._again.put(row.id, found)
        return found if found is not None else self._fetches.get(row)

    def read_ahead(self, rows: Iterable[ChunkRow]) -> None:
        """Prefetch these chunks; failures are ignored."""
        for row in rows:
            if not row.size_bytes or row.id in self._ahead or self._holds(row.id):
                continue
            if self._ahead_bytes + row.size_bytes > self._most_ahead_bytes:
                return
            self._ahead[row.id] = row.size_bytes
            self._ahead_bytes += row.size_bytes
            self._fetches.ask_ahead(row)

    def _holds(self, chunk_id: int) -> bool:
        is_held = chunk_id in self._written or chunk_id in self._again or chunk_id in self._once
        return is_held or chunk_id in self._fetches

    def _is_no_more_ahead(self, chunk_id: int) -> bool:
        """Count the chunk as prefetched no longer. Returns whether it was."""
        size_bytes = self._ahead.pop(chunk_id, 0)
        self._ahead_bytes -= size_bytes
        return size_bytes > 0

    def _on_fetched(self, row: ChunkRow, batches: ChunkBatches | None) -> None:
        self.fetched_count += 1
        self.fetched_bytes += row.size_bytes
        gone = [row.id] if batches is None else self._once.put(row.id, batches)
        for chunk_id in gone:
            self._is_no_more_ahead(chunk_id)
