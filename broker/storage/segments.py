"""What retention and compaction see of a stored log: a list of segments, whatever these are made of."""

from collections.abc import Iterator
from typing import Protocol


class StoredSegment(Protocol):
    """Neighbouring batches that a store keeps, and lets go, together."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp: int
    """Of the first batch; -1: it has none."""
    max_timestamp: int


class SegmentList(Protocol):
    """In offset order; the last one is appended to."""

    def __iter__(self) -> Iterator[StoredSegment]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, slot: int, /) -> StoredSegment: ...

    @property
    def size_bytes(self) -> int: ...
