"""The aborted transactions whose marker is in one segment.

Owns: the entries, in memory as arrays and in Kafka's 34-byte format on disk. Does not own: the decision to abort.
Invariant: entries are in the order of their markers (`last_offset` strictly increases). KIP-98.
"""

import struct
from array import array
from bisect import bisect_left

from oncelog.broker.log.store import AbortedEntry
from oncelog.broker.storage.minimum_tree import NONE, MinimumTree

ENTRY = struct.Struct(">hqqqq")
VERSION = 0


class TransactionIndex:
    __slots__ = ("_first_offsets", "_last_offsets", "_last_stable_offsets", "_producer_ids")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = MinimumTree()
        self._last_offsets = array("q")
        self._last_stable_offsets = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    @property
    def entries(self) -> list[AbortedEntry]:
        return list(
            map(
                AbortedEntry,
                self._producer_ids,
                self._first_offsets.values,
                self._last_offsets,
                self._last_stable_offsets,
            )
        )

    def between(self, from_offset: int, to_offset: int) -> "TransactionIndex":
        """Return the transactions whose markers are in [from_offset, to_offset)."""
        part = TransactionIndex()
        slots = range(bisect_left(self._last_offsets, from_offset), bisect_left(self._last_offsets, to_offset))
        for slot in slots:
            part.append(
                AbortedEntry(
                    self._producer_ids[slot],
                    self._first_offsets.values[slot],
                    self._last_offsets[slot],
                    self._last_stable_offsets[slot],
                )
            )
        return part

    @property
    def lowest_first_offset(self) -> int:
        """The first offset of the earliest of these transactions; the greatest offset if there is none."""
        return self._first_offsets.lowest(0)

    def append(self, entry: AbortedEntry) -> None:
        if self._last_offsets and entry.last_offset <= self._last_offsets[-1]:
            raise ValueError(f"marker {entry.last_offset} is not after {self._last_offsets[-1]}")
        self._producer_ids.append(entry.producer_id)
        self._first_offsets.append(entry.first_offset)
        self._last_offsets.append(entry.last_offset)
        self._last_stable_offsets.append(entry.last_stable_offset)

    def collect(self, fetch_offset: int, upper_bound: int, found: list[tuple[int, int]]) -> bool:
        """Add (producer id, first offset) of the transactions that overlap [fetch_offset, upper_bound) to `found`;
        returns True if later segments have none."""
        first_offsets, last_stable_offsets = self._first_offsets.values, self._last_stable_offsets
        slot, end = bisect_left(self._last_offsets, fetch_offset), len(first_offsets)
        while slot < end:
            first_offset = first_offsets[slot]
            if first_offset < upper_bound:
                found.append((self._producer_ids[slot], first_offset))
            # A transaction that aborted after this one began at or above this entry's last stable offset.
            if last_stable_offsets[slot] >= upper_bound:
                return True
            slot += 1
            if slot < end and first_offsets[slot] >= upper_bound:
                # A longer transaction kept the stable offset low: skip the many in between to the next match.
                slot = self._first_offsets.find_below(slot, upper_bound)
                if slot == NONE:
                    return False
        return False

    def to_bytes(self) -> bytes:
        return b"".join(
            [
                ENTRY.pack(VERSION, producer_id, first_offset, last_offset, last_stable_offset)
                for producer_id, first_offset, last_offset, last_stable_offset in zip(
                    self._producer_ids,
                    self._first_offsets.values,
                    self._last_offsets,
                    self._last_stable_offsets,
                    strict=True,
                )
            ]
        )

    @staticmethod
    def from_bytes(data: bytes) -> "TransactionIndex":
        """Raises ValueError if `data` cannot be an index."""
        if len(data) % ENTRY.size:
            raise ValueError(f"its size of {len(data)} bytes is not a multiple of {ENTRY.size}")
        index = TransactionIndex()
        for version, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(data):
            if version != VERSION:
                raise ValueError(f"an entry has the unknown version {version}")
            if first_offset > last_offset:
                raise ValueError("an entry ends before it begins")
            index.append(AbortedEntry(producer_id, first_offset, last_offset, last_stable_offset))
        return index
