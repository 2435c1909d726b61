"""A summary of a partition's complete segments, so that a search goes directly to the relevant ones.

Owns: for each complete segment the lowest first offset of its aborted transactions and its greatest timestamp.
Invariant: it covers all segments but the active one, the only one that still changes; it is updated lazily, by lookups,
to keep rolls cheap.
"""

from collections.abc import Sequence

from oncelog.broker.storage.local.segment import Segment
from oncelog.broker.storage.minimum_tree import NONE, MinimumTree


class SegmentSummary:
    __slots__ = ("_first_offsets", "_gone_count", "_negated_timestamps", "_segments")

    def __init__(self, segments: Sequence[Segment]) -> None:
        """`segments` is the partition's own list, shared: it grows and shrinks."""
        self._segments = segments
        self.forget()

    def forget(self) -> None:
        """Segments were replaced: discard the summary."""
        self._first_offsets = MinimumTree()
        self._negated_timestamps = MinimumTree()
        self._gone_count = 0

    def on_first_gone(self) -> None:
        """The oldest segment was removed from the list."""
        self._gone_count += 1
        if self._gone_count * 2 > len(self._first_offsets):
            self.forget()

    def slot_with_aborted(self, start: int, upper_bound: int) -> int | None:
        """The first segment from `start` with an aborted transaction that began below `upper_bound`."""
        return self._find(self._first_offsets, start, upper_bound)

    def slot_with_timestamp(self, start: int, timestamp_ms: int) -> int | None:
        """The first segment from `start` with a timestamp of at least `timestamp_ms`."""
        return self._find(self._negated_timestamps, start, 1 - timestamp_ms)

    def max_timestamp(self) -> int:
        """The greatest timestamp of all; -1 if no record has one."""
        if not self._segments:
            return -1
        self._catch_up()
        return max(self._segments[-1].max_timestamp, -self._negated_timestamps.lowest(self._gone_count))

    def _find(self, tree: MinimumTree, start: int, bound: int) -> int | None:
        last = len(self._segments) - 1
        if start < last:
            self._catch_up()
            found = tree.find_below(start + self._gone_count, bound)
            if found != NONE:
                return found - self._gone_count
        # The active one is not covered: the caller must search it.
        return last if start <= last else None

    def _catch_up(self) -> None:
        for slot in range(len(self._first_offsets) - self._gone_count, len(self._segments) - 1):
            segment = self._segments[slot]
            self._first_offsets.append(segment.transaction_index.lowest_first_offset)
            self._negated_timestamps.append(-segment.max_timestamp)
