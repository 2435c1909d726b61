"""The aborted transactions whose marker lies in one segment.

Owns: the entries, in memory and in Kafka's 34 byte form on disk. Does not own: who decides that a transaction aborted.
Invariant: entries are in the order of their markers (`last_offset` strictly rises). KIP-98.
"""

import struct
from bisect import bisect_left
from dataclasses import dataclass
from operator import attrgetter

ENTRY = struct.Struct(">hqqqq")
VERSION = 0

_last_offset_of = attrgetter("last_offset")


@dataclass(frozen=True, slots=True)
class AbortedEntry:
    producer_id: int
    first_offset: int
    last_offset: int  # the ABORT marker
    last_stable_offset: int  # as it became with this marker


class TransactionIndex:
    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[AbortedEntry] = []

    def append(self, entry: AbortedEntry) -> None:
        if self.entries and entry.last_offset <= self.entries[-1].last_offset:
            raise ValueError(f"marker {entry.last_offset} is not after {self.entries[-1].last_offset}")
        self.entries.append(entry)

    def collect(self, fetch_offset: int, upper_bound: int, found: list[AbortedEntry]) -> bool:
        """Add the transactions that touch [fetch_offset, upper_bound) to `found`; True if later segments hold none."""
        start = bisect_left(self.entries, fetch_offset, key=_last_offset_of)
        for slot in range(start, len(self.entries)):
            entry = self.entries[slot]
            if entry.first_offset < upper_bound:
                found.append(entry)
            # A transaction aborted later than this began at or after the stable offset of this moment.
            if entry.last_stable_offset >= upper_bound:
                return True
        return False

    def to_bytes(self) -> bytes:
        return b"".join(
            ENTRY.pack(VERSION, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
            for entry in self.entries
        )

    @staticmethod
    def from_bytes(data: bytes) -> "TransactionIndex":
        """Raises ValueError if `data` cannot be an index."""
        if len(data) % ENTRY.size:
            raise ValueError(f"its size of {len(data)} bytes is no multiple of {ENTRY.size}")
        index = TransactionIndex()
        for version, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(data):
            if version != VERSION:
                raise ValueError(f"version {version} of an entry is not known here")
            if first_offset > last_offset:
                raise ValueError("an entry ends before it begins")
            index.append(AbortedEntry(producer_id, first_offset, last_offset, last_stable_offset))
        return index
