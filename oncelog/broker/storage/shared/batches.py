"""Adjacent batches in memory, wherever they are from, and those of a chunk.

Owns: how the bytes of a chunk are read. Invariant: an answer holds at most four times its own bytes: it is a view of a
chunk if it is a good part of it, and a copy if not.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from struct import Struct, error
from typing import Protocol

from oncelog.broker.log.store import FoundRecord, StoreDamagedError
from oncelog.broker.storage.memory.memory_log import first_as_late
from oncelog.broker.storage.shared.tables import ChunkRow
from oncelog.broker.turns.ports import Buffer
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.records.batch import HEADER_SIZE, LENGTH_OVERHEAD

_BATCH = Struct(">qi11xi8xq14xi")
"""The fields of a batch's header: base offset, length, last offset delta, greatest timestamp, number of records."""
_BYTES_A_BATCH = 24
"""The memory that the index of a chunk takes for each of its batches."""
_VIEWED_SHARE = 4
"""An answer with less than this part of a chunk is a copy."""


class HeldBatches(Protocol):
    """Adjacent batches in memory: of a chunk, or of a tail."""

    base_offset: int
    next_offset: int

    @property
    def ends(self) -> Sequence[int]:
        """The offset after each batch."""

    @property
    def positions(self) -> Sequence[int]:
        """The bytes before each batch."""

    @property
    def size_bytes(self) -> int: ...

    def slot_of(self, offset: int) -> int:
        """Return the number of the batch that holds `offset`, or, in a gap, of the next one."""

    def batch(self, slot: int) -> Buffer: ...

    def joined(self, first: int, last: int) -> memoryview:
        """The batches from one slot to before another."""

    def find_timestamp(self, timestamp_ms: int, from_offset: int) -> FoundRecord | None:
        """The first record from `from_offset` with at least `timestamp_ms`."""


class ChunkBatches:
    """The batches of a chunk, in the bytes that the tables have."""

    __slots__ = ("_view", "base_offset", "ends", "next_offset", "positions", "size_bytes", "timestamps")

    def __init__(self, row: ChunkRow, body: bytes) -> None:
        """`body` is what was written. Raises StoreDamagedError if that were no batches."""
        self._view = memoryview(body)
        self.base_offset = row.base_offset
        self.next_offset = row.next_offset
        self.size_bytes = len(body)
        self.ends = array("q")
        self.positions = array("q")
        self.timestamps = array("q")
        at = 0
        try:
            while at < len(body):
                base_offset, length, last_offset_delta, timestamp, record_count = _BATCH.unpack_from(body, at)
                self.ends.append(base_offset + last_offset_delta + 1)
                self.positions.append(at)
                self.timestamps.append(timestamp if record_count else -1)
                at += max(length + LENGTH_OVERHEAD, HEADER_SIZE)
        except error:
            at = -1
        if at != len(body):
            raise StoreDamagedError(f"chunk {row.id} at offset {row.base_offset} holds no batches")

    @property
    def held_bytes(self) -> int:
        return self.size_bytes + _BYTES_A_BATCH * len(self.ends)

    def slot_of(self, offset: int) -> int:
        return bisect_right(self.ends, offset)

    def batch(self, slot: int) -> Buffer:
        return self._view[self.positions[slot] : self._end(slot + 1)]

    def _end(self, slot: int) -> int:
        return self.positions[slot] if slot < len(self.positions) else self.size_bytes

    def joined(self, first: int, last: int) -> memoryview:
        found = self._view[self.positions[first] : self._end(last)]
        return found if len(found) * _VIEWED_SHARE >= self.size_bytes else memoryview(bytes(found))

    def find_timestamp(self, timestamp_ms: int, from_offset: int) -> FoundRecord | None:
        for slot in range(self.slot_of(from_offset), len(self.ends)):
            if self.timestamps[slot] >= timestamp_ms:
                found = first_as_late(self.batch(slot), timestamp_ms, from_offset)
                if found is not None:
                    return found
        return None


def loaded(row: ChunkRow, body: bytes) -> ChunkBatches:
    """The batches of a chunk that was fetched. Raises StoreDamagedError."""
    if crc32c(body) != row.checksum:
        raise StoreDamagedError(f"the checksum of chunk {row.id} at offset {row.base_offset} does not match")
    return ChunkBatches(row, body)
