"""Decides how far retention by age and size may advance the start of a log.

Owns: the decision only; `LogManager` applies it. Invariant: only whole segments below the high watermark are deleted,
the oldest first, and as in Kafka the active one with them once all of it is due: a new one then begins at the log end.
A record without a timestamp exempts its segment from retention by age; one from the future delays it, as in Kafka,
until that time plus the retention. Retention by size ignores timestamps.
"""

from collections.abc import Iterator
from typing import Protocol

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.turns.ports import WallMs


class StoredSegment(Protocol):
    """Adjacent batches that a store deletes together."""

    base_offset: int
    next_offset: int
    size_bytes: int
    first_timestamp: int
    """The greatest timestamp of the first batch; -1 without batches."""
    max_timestamp: int


class SegmentList(Protocol):
    """In offset order; appends go to the last one."""

    def __iter__(self) -> Iterator[StoredSegment]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, slot: int, /) -> StoredSegment: ...

    @property
    def size_bytes(self) -> int: ...


def retention_start(segments: SegmentList, config: LogConfig, high_watermark: int, wall_ms: WallMs) -> int | None:
    """The new log start offset; None if there is nothing to delete."""
    if not config.is_deleting:
        return None
    excess_bytes = segments.size_bytes - config.retention_bytes if config.retention_bytes >= 0 else 0
    new_start: int | None = None
    last = len(segments) - 1
    for slot in range(last + 1):
        segment = segments[slot]
        if segment.next_offset > high_watermark or (slot == last and segment.size_bytes == 0):
            break
        is_old = config.retention_ms >= 0 and 0 <= segment.max_timestamp < wall_ms - config.retention_ms
        if not is_old and excess_bytes < segment.size_bytes:
            break
        excess_bytes -= segment.size_bytes
        new_start = segment.next_offset
    return new_start
