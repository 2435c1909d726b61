"""What each batch of a partition is to its readers: plain, committed, aborted, open, a marker, emptied, damaged.

Owns: the map of a partition, and the offsets up to which readers may read. Does not own: how it is read (`reader`) or
drawn (`picture`).
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from oncelog.tools.log.points import KnownPoints


class State(IntEnum):
    """The state of one batch."""

    PLAIN = 0
    COMMITTED = 1
    ABORTED = 2
    OPEN = 3
    COMMIT_MARKER = 4
    ABORT_MARKER = 5
    OTHER_CONTROL = 6
    EMPTIED = 7
    DAMAGED = 8


MEANINGS = {
    State.PLAIN: (".", "outside any transaction"),
    State.COMMITTED: ("C", "committed"),
    State.ABORTED: ("A", "aborted"),
    State.OPEN: ("O", "open: no COMMIT or ABORT marker here yet"),
    State.COMMIT_MARKER: ("c", "COMMIT marker"),
    State.ABORT_MARKER: ("a", "ABORT marker"),
    State.OTHER_CONTROL: ("k", "other control batch"),
    State.EMPTIED: ("_", "emptied by compaction"),
    State.DAMAGED: ("!", "damaged"),
}
"""The letter of each state, and its words in a legend."""


@dataclass(slots=True)
class SegmentMap:
    """One `.log` file: the cells [first_cell, end_cell)."""

    file: str
    base_offset: int
    size_bytes: int
    first_cell: int
    end_cell: int
    next_offset: int
    problems: list[tuple[int, int, str]]
    """The position, offset and description of each problem."""


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    producer_id: int
    producer_epoch: int
    first_offset: int
    batch_count: int


@dataclass(slots=True)
class PartitionMap:
    """The map of a partition in columns: one entry per batch, in the order of offsets."""

    topic: str
    partition: int
    points: KnownPoints
    states: bytearray = field(default_factory=bytearray)
    base_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    next_offsets: "array[int]" = field(default_factory=lambda: array("q"))
    positions: "array[int]" = field(default_factory=lambda: array("q"))
    sizes_bytes: "array[int]" = field(default_factory=lambda: array("q"))
    record_counts: "array[int]" = field(default_factory=lambda: array("q"))
    producer_ids: "array[int]" = field(default_factory=lambda: array("q"))
    segments: list[SegmentMap] = field(default_factory=list)
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    undecided_offset: int | None = None
    """The first offset of a transaction that is not over for readers: open, or its marker is not durable yet."""

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def log_start_offset(self) -> int:
        known = self.points.log_start_offset
        first = self.segments[0].base_offset if self.segments else 0
        return first if known is None else max(known, first)

    @property
    def log_end_offset(self) -> int:
        return self.segments[-1].next_offset if self.segments else 0

    @property
    def high_watermark(self) -> int:
        known = self.points.high_watermark
        return self.log_end_offset if known is None else min(known, self.log_end_offset)

    @property
    def last_stable_offset(self) -> int:
        undecided = self.undecided_offset
        stable = self.high_watermark if undecided is None else min(undecided, self.high_watermark)
        return max(stable, self.log_start_offset)

    @property
    def is_damaged(self) -> bool:
        """Whether something durable is missing: more than the torn end of an unacknowledged write."""
        return any(
            not self.is_torn_end(segment, offset) for segment in self.segments for _, offset, _ in segment.problems
        )

    def is_torn_end(self, segment: SegmentMap, offset: int) -> bool:
        """Whether the problem at `offset` is a torn write, or one in progress."""
        return segment is self.segments[-1] and offset >= (self.points.high_watermark or 0)

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def cell_of(self, offset: int) -> int:
        """Return the cell of the batch that contains `offset`, or of the first after it."""
        return bisect_right(self.next_offsets, offset)


def objects(found: PartitionMap) -> Iterator[dict[str, object]]:
    """Yield the map for programs: the partition, then each segment with its batches."""
    yield {
        "kind": "partition",
        "topic": found.topic,
        "partition": found.partition,
        "log_start_offset": found.log_start_offset,
        "last_stable_offset": found.last_stable_offset,
        "high_watermark": found.high_watermark,
        "log_end_offset": found.log_end_offset,
        "segments": len(found.segments),
        "batches": len(found.states),
        "bytes": found.size_bytes,
        "damaged": found.is_damaged,
    }
    for segment in found.segments:
        yield {
            "kind": "segment",
            "file": segment.file,
            "base_offset": segment.base_offset,
            "next_offset": segment.next_offset,
            "bytes": segment.size_bytes,
            "problems": [
                {"position": position, "offset": offset, "problem": problem}
                for position, offset, problem in segment.problems
            ],
        }
        for cell in range(segment.first_cell, segment.end_cell):
            yield {
                "kind": "batch",
                "state": State(found.states[cell]).name.lower(),
                "base_offset": found.base_offsets[cell],
                "last_offset": found.next_offsets[cell] - 1,
                "position": found.positions[cell],
                "size_bytes": found.sizes_bytes[cell],
                "record_count": found.record_counts[cell],
                "producer_id": found.producer_ids[cell],
            }
    for transaction in found.open_transactions:
        yield {
            "kind": "open_transaction",
            "producer_id": transaction.producer_id,
            "producer_epoch": transaction.producer_epoch,
            "first_offset": transaction.first_offset,
            "batches": transaction.batch_count,
        }
