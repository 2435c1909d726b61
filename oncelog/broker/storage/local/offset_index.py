"""The sparse offset index of one segment: maps offsets to byte positions of batches.

Owns: its entries, in memory as two arrays, and their format on disk (Kafka's: int32 relative offset, int32
position). As in Kafka an entry has the last offset of the batch at its position.
Does not own: when its file is written (the segment). Invariant: offsets and positions strictly increase.
"""

import sys
from array import array
from bisect import bisect_right
from itertools import pairwise
from struct import Struct

ENTRY = Struct(">ii")
ENTRY_BYTES = ENTRY.size


class OffsetIndex:
    __slots__ = ("_base_offset", "_positions", "_relative_offsets")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._relative_offsets = array("i")
        self._positions = array("i")

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def size_bytes(self) -> int:
        return ENTRY_BYTES * len(self._positions)

    def append(self, offset: int, position: int) -> None:
        self._relative_offsets.append(offset - self._base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> int:
        """Position of the last indexed batch that ends at or before `offset`; 0 if there is none."""
        slot = bisect_right(self._relative_offsets, offset - self._base_offset) - 1
        return self._positions[slot] if slot >= 0 else 0

    def position_at_or_before(self, position: int) -> int:
        """Position of the last indexed batch at or before `position`; 0 if there is none."""
        slot = bisect_right(self._positions, position) - 1
        return self._positions[slot] if slot >= 0 else 0

    def entries(self) -> list[tuple[int, int]]:
        return [
            (self._base_offset + relative, position)
            for relative, position in zip(self._relative_offsets, self._positions, strict=True)
        ]

    def to_bytes(self) -> bytes:
        interleaved = array("i", bytes(ENTRY_BYTES * len(self._positions)))
        interleaved[0::2] = self._relative_offsets
        interleaved[1::2] = self._positions
        _to_big_endian(interleaved)
        return interleaved.tobytes()

    @staticmethod
    def from_bytes(base_offset: int, data: bytes) -> "OffsetIndex":
        """Raises ValueError if `data` cannot be an index."""
        if len(data) % ENTRY_BYTES:
            raise ValueError(f"its size of {len(data)} bytes is not a multiple of {ENTRY_BYTES}")
        interleaved = array("i", data)
        _to_big_endian(interleaved)
        index = OffsetIndex(base_offset)
        index._relative_offsets = interleaved[0::2]
        index._positions = interleaved[1::2]
        if not (_strictly_rises(index._relative_offsets) and _strictly_rises(index._positions)):
            raise ValueError("its entries do not increase")
        return index


def _to_big_endian(values: "array[int]") -> None:
    if sys.byteorder == "little":
        values.byteswap()


def _strictly_rises(values: "array[int]") -> bool:
    if not values:
        return True
    return values[0] >= 0 and all(first < second for first, second in pairwise(values))
