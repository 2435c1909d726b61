"""Chunks of batches: what is known of each, and the batches of those that were written or read last.

Owns: the memory that batches outside the tails take. Invariant: it is bounded; what readers fetch from far back does
not push out what was written last, which most readers want.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Protocol

from oncelog.broker.log.store import StoreDamagedError
from oncelog.broker.storage.memory.memory_log import MemorySegment
from oncelog.broker.storage.sections import LogKey
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import ChunkRow, FetchChunk, NewChunk
from oncelog.broker.storage.transaction_index import TransactionIndex
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.records.batch import iter_batches

_NEVER = MonotonicMs(0)
CHUNK_BYTES = 1024 * 1024
"""Of the batches of one chunk, unless a single one is larger."""


def loaded(row: ChunkRow, body: bytes) -> MemorySegment:
    """The batches of a chunk. Raises StoreDamagedError."""
    if crc32c(body) != row.checksum:
        raise StoreDamagedError(f"the checksum of chunk {row.id} at offset {row.base_offset} does not match")
    batches = MemorySegment(row.base_offset, frozenset(row.open_producers), _NEVER)
    try:
        for header, batch in iter_batches(memoryview(body)):
            batches.append(bytes(batch), header.next_offset, header.max_timestamp if header.record_count else -1)
    except ProtocolError as error:
        raise StoreDamagedError(f"chunk {row.id} at offset {row.base_offset} holds no batches: {error}") from error
    batches.next_offset = row.next_offset
    return batches


class Segment(Protocol):
    """What each chunk says of its segment."""

    base_offset: int
    first_timestamp: int
    open_producers: frozenset[int]
    transaction_index: TransactionIndex


class ChunkWriter:
    """Makes chunks of the batches of segments, with ids of its own."""

    def __init__(self, epoch: int, chunk_bytes: int) -> None:
        self._chunk_bytes = chunk_bytes
        self._last_id = epoch << 32

    def split(self, key: LogKey, segment: Segment, batches: MemorySegment, end_offset: int) -> list[NewChunk]:
        """What `batches`, a part of the segment, holds below `end_offset`, without a gap between the chunks; one even
        if there is nothing."""
        chunks: list[NewChunk] = []
        base_offset, first, last, size_bytes = batches.base_offset, 0, 0, 0
        while last < len(batches.ends) and batches.ends[last] <= end_offset:
            batch_bytes = len(batches.batches[last])
            if size_bytes and size_bytes + batch_bytes > self._chunk_bytes:
                next_offset = batches.ends[last - 1]
                chunks.append(self._chunk(key, segment, batches, slice(first, last), base_offset, next_offset))
                base_offset, first, size_bytes = next_offset, last, 0
            size_bytes += batch_bytes
            last += 1
        chunks.append(self._chunk(key, segment, batches, slice(first, last), base_offset, end_offset))
        return chunks

    def _chunk(
        self, key: LogKey, segment: Segment, batches: MemorySegment, slots: slice, base_offset: int, next_offset: int
    ) -> NewChunk:
        body = b"".join(batches.batches[slots])
        aborted = TransactionIndex()
        for entry in segment.transaction_index.entries:
            if base_offset <= entry.last_offset < next_offset:
                aborted.append(entry)
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
        """How much may be held of what was written, and of what was fetched."""
        self._statements = statements
        self._written = _Bounded(written_bytes)
        self._fetched = _Bounded(fetched_bytes)
        self._fetching: dict[int, Completion[MemorySegment | None]] = {}

    def keep_written(self, chunks: Sequence[NewChunk]) -> None:
        for row, body in chunks:
            self._written.put(row.id, loaded(row, body))

    def get(self, row: ChunkRow) -> MemorySegment | Completion[MemorySegment | None]:
        """Its batches; None if it is gone. Fails with OSError or StoreDamagedError."""
        found = self._written.get(row.id) or self._fetched.get(row.id)
        if found is not None:
            return found
        fetching = self._fetching.get(row.id)
        if fetching is None or fetching.done:  # it has failed
            fetching = self._statements.ask(FetchChunk(row.id)).map(lambda body: self._on_fetched(row, body))
            if not fetching.done:
                self._fetching[row.id] = fetching
        return fetching

    def _on_fetched(self, row: ChunkRow, body: bytes | None) -> MemorySegment | None:
        self._fetching.pop(row.id, None)
        if body is None:
            return None
        batches = loaded(row, body)
        self._fetched.put(row.id, batches)
        return batches


class _Bounded:
    """The batches of chunks; those that were not asked for longest go first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._size_bytes = 0
        self._chunks: OrderedDict[int, MemorySegment] = OrderedDict()

    def get(self, chunk_id: int) -> MemorySegment | None:
        found = self._chunks.get(chunk_id)
        if found is not None:
            self._chunks.move_to_end(chunk_id)
        return found

    def put(self, chunk_id: int, batches: MemorySegment) -> None:
        self._chunks[chunk_id] = batches
        self._size_bytes += batches.size_bytes
        while self._size_bytes > self._limit_bytes:
            self._size_bytes -= self._chunks.popitem(last=False)[1].size_bytes
