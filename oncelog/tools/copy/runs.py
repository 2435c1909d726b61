"""Where the records of one partition are: runs of offsets that rise together on the source and on the target.

Owns: the mapping, in three arrays of 64-bit numbers. Does not own: how it is stored (`state`). Invariant: runs rise on
both sides and do not overlap; two that continue each other are one. A run ends where offsets were used that hold no
copied record: markers, aborted transactions and what compaction removed on the source, a marker for each of the copy's
transactions on the target.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

Run = tuple[int, int, int]
"""A run: the first source offset, the first target offset, the number of records."""


class Runs:
    """The runs of one partition; empty at first."""

    __slots__ = ("_counts", "_source", "_target")

    def __init__(self) -> None:
        self._source, self._target, self._counts = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, index: int) -> Run:
        return self._source[index], self._target[index], self._counts[index]

    def __iter__(self) -> Iterator[Run]:
        return zip(self._source, self._target, self._counts, strict=True)

    def append(self, source: int, target: int, count: int) -> None:
        """Raises ValueError for a run that does not lie behind the last on both sides."""
        if self._source:
            last_source, last_target, last_count = self[-1]
            ahead_by = source - last_source - last_count, target - last_target - last_count
            if min(ahead_by) < 0:
                raise ValueError(f"the run {source}, {target} overlaps the one before")
            if ahead_by == (0, 0):
                self._counts[-1] += count
                return
        self._source.append(source)
        self._target.append(target)
        self._counts.append(count)

    @property
    def target_end(self) -> int:
        """The target offset behind the last record; 0 without one."""
        return self._target[-1] + self._counts[-1] if self._source else 0

    def target_of(self, offset: int) -> int:
        """Return where the first record at or behind this source offset is on the target; behind the last record if
        there is none: a reader that continues there misses none and repeats none."""
        index = bisect_right(self._source, offset) - 1
        if index >= 0:
            source, target, count = self[index]
            if offset < source + count:
                return target + offset - source
        return self._target[index + 1] if index + 1 < len(self) else self.target_end

    def block(self, start: int, end: int) -> list[int]:
        """Runs [start, end) as small numbers: what each lies behind the end of the one before, and its count."""
        numbers: list[int] = []
        for (source, target, length), run in pairwise(((0, 0, 0), *map(self.__getitem__, range(start, end)))):
            numbers += (run[0] - source - length, run[1] - target - length, run[2])
        return numbers

    def extend_by_block(self, numbers: list[int]) -> None:
        """Append what `block` returned."""
        source = target = 0
        for source_gap, target_gap, count in zip(*(iter(numbers),) * 3, strict=True):
            source, target = source + source_gap, target + target_gap
            self.append(source, target, count)
            source, target = source + count, target + count
