"""The sparse time index of one segment: a lower bound for the first record at or after a timestamp.

Owns: its entries, in memory as two arrays, and their format on disk (Kafka's: int64 timestamp, int32 relative offset).
An entry (timestamp, offset) means: the batch that ends with `offset` is the first with this timestamp, and when it was
added none had a greater one.
Invariant: timestamps strictly increase, offsets never decrease.
"""

import struct
from array import array
from bisect import bisect_left

ENTRY = struct.Struct(">qi")


class TimeIndex:
    __slots__ = ("_base_offset", "_relative_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._relative_offsets = array("i")

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp_ms: int, offset: int) -> None:
        """Add an entry unless it is redundant."""
        if timestamp_ms >= 0 and (not self._timestamps or timestamp_ms > self._timestamps[-1]):
            self._timestamps.append(timestamp_ms)
            self._relative_offsets.append(offset - self._base_offset)

    def lookup(self, timestamp_ms: int) -> int:
        """An offset below which no batch has a timestamp of at least `timestamp_ms`."""
        slot = bisect_left(self._timestamps, timestamp_ms) - 1
        return self._base_offset + (self._relative_offsets[slot] if slot >= 0 else 0)

    def entries(self) -> list[tuple[int, int]]:
        return [
            (timestamp, self._base_offset + relative)
            for timestamp, relative in zip(self._timestamps, self._relative_offsets, strict=True)
        ]

    def to_bytes(self) -> bytes:
        return b"".join(map(ENTRY.pack, self._timestamps, self._relative_offsets))

    @staticmethod
    def from_bytes(base_offset: int, data: bytes) -> "TimeIndex":
        """Raises ValueError if `data` cannot be an index."""
        if len(data) % ENTRY.size:
            raise ValueError(f"its size of {len(data)} bytes is not a multiple of {ENTRY.size}")
        index = TimeIndex(base_offset)
        last_timestamp, last_relative = -1, 0
        for timestamp, relative in ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or relative < last_relative:
                raise ValueError("its entries do not increase")
            index._timestamps.append(timestamp)
            index._relative_offsets.append(relative)
            last_timestamp, last_relative = timestamp, relative
        return index
