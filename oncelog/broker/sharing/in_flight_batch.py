"""A range of offsets that was acquired or read from the share coordinator as one, and the states within it.

Owns: the runs of its offsets, a single one as long as all have the same state. Does not own: the changes of state.
Invariant: the runs cover all its offsets in order, and no two neighbours could be one. Kafka: InFlightBatch, which has
one state for each offset once they differ.
"""

from bisect import bisect_right
from collections.abc import Iterator

from oncelog.broker.sharing.values import ACKNOWLEDGED, AVAILABLE, Run


class InFlightBatch:
    __slots__ = ("_runs", "first_offset", "is_split", "last_offset")

    def __init__(self, first: Run) -> None:
        """A batch of one run; `put` splits it."""
        self.first_offset = first.first_offset
        self.last_offset = first.last_offset
        self.is_split = False
        """Whether its offsets have been treated differently."""
        self._runs = [first]

    @property
    def record_count(self) -> int:
        return self.last_offset - self.first_offset + 1

    def runs_within(self, first_offset: int, last_offset: int) -> list[Run]:
        """Return the runs of an offset range, cut to it."""
        runs = self._runs
        if len(runs) == 1:
            cut = _cut(runs[0], first_offset, last_offset)
            return [] if cut is None else [cut]
        found = []
        for index in range(max(0, self._index_of(first_offset)), len(runs)):
            run = runs[index]
            if run.first_offset > last_offset:
                break
            cut = _cut(run, first_offset, last_offset)
            if cut is not None:
                found.append(cut)
        return found

    def first_unfinished(self, from_offset: int) -> int:
        """Return the first offset, from this one on, that is not terminal; −1 if all are."""
        for index in range(max(0, self._index_of(from_offset)), len(self._runs)):
            run = self._runs[index]
            if run.state < ACKNOWLEDGED:
                return max(from_offset, run.first_offset)
        return -1

    def first_available(self) -> int:
        """Return the first offset that is available; −1 if none is."""
        for run in self._runs:
            if run.state == AVAILABLE:
                return run.first_offset
        return -1

    def put(self, run: Run) -> list[Run]:
        """Replace the offsets of a run, all of which are in this batch. Return what they were."""
        first_offset, last_offset = run.first_offset, run.last_offset
        before = self.runs_within(first_offset, last_offset)
        if first_offset == self.first_offset and last_offset == self.last_offset:
            self._runs = [run]
            return before
        self.is_split = True
        first, last = self._index_of(first_offset), self._index_of(last_offset)
        pieces = [run]
        left = _cut(self._runs[first], self.first_offset, first_offset - 1)
        if left is None and first > 0:
            first -= 1
            left = self._runs[first]
        right = _cut(self._runs[last], last_offset + 1, self.last_offset)
        if right is None and last + 1 < len(self._runs):
            last += 1
            right = self._runs[last]
        if left is not None:
            pieces = _joined(left, pieces[0])
        if right is not None:
            pieces[-1:] = _joined(pieces[-1], right)
        self._runs[first : last + 1] = pieces
        return before

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def _index_of(self, offset: int) -> int:
        return bisect_right(self._runs, offset, key=_first_offset) - 1


def _first_offset(run: Run) -> int:
    return run.first_offset


def _cut(run: Run, first_offset: int, last_offset: int) -> Run | None:
    if first_offset <= run.first_offset and last_offset >= run.last_offset:
        return run
    first_offset, last_offset = max(first_offset, run.first_offset), min(last_offset, run.last_offset)
    if first_offset > last_offset:
        return None
    return Run(first_offset, last_offset, run.state, run.delivery_count, run.member_id, run.locked_until_ms)


def _joined(left: Run, right: Run) -> list[Run]:
    if left[2:] == right[2:]:
        return [Run(left.first_offset, *right[1:])]
    return [left, right]
