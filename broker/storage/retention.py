"""Decides how far the start of a log may move by age and size.

Owns: the decision alone; `LogManager` carries it out. Invariants: only whole segments below the
high watermark go, never the active one; a record without a timestamp keeps its segment by age, and, as in Kafka, one
from the future keeps it until its time has come and the retention has passed. Size knows no time.
"""

from collections.abc import Iterator
from typing import Protocol

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.ports import WallMs


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


def retention_start(segments: SegmentList, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
    """The offset at which the log may begin, None if nothing is to go."""
    if not config.is_deleting or len(segments) < 2:
        return None
    excess_bytes = segments.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    new_start: int | None = None
    for slot in range(len(segments) - 1):
        segment = segments[slot]
        if segment.next_offset > high_watermark:
            break
        is_old = config.retention_ms >= 0 and 0 <= segment.max_timestamp < wall_ms - config.retention_ms
        if not is_old and excess_bytes < segment.size_bytes:
            break
        excess_bytes -= segment.size_bytes
        new_start = segment.next_offset
    return new_start
