"""When acquisition locks expire.

Owns: how many records are locked until which time. Does not own: which records, or any timer. As all records of one
acquisition expire together, a time stands here once, however many records and batches it has.
"""

from heapq import heapify, heappop, heappush

from oncelog.broker.turns.ports import MonotonicMs

_SLACK = 64
"""How many times of released locks are kept at least before they are swept out: chosen, so that few locks never pay for
it."""


class Locks:
    __slots__ = ("_counts", "_times")

    def __init__(self) -> None:
        self._counts: dict[MonotonicMs, int] = {}
        self._times: list[MonotonicMs] = []
        """A heap of all times in `_counts`, and of some that are no longer there."""

    def add(self, until_ms: MonotonicMs, record_count: int) -> None:
        if until_ms in self._counts:
            self._counts[until_ms] += record_count
            return
        self._counts[until_ms] = record_count
        heappush(self._times, until_ms)
        if len(self._times) > 2 * len(self._counts) + _SLACK:
            self._times = list(self._counts)
            heapify(self._times)

    def remove(self, until_ms: MonotonicMs, record_count: int) -> None:
        left = self._counts[until_ms] - record_count
        if left:
            self._counts[until_ms] = left
        else:
            del self._counts[until_ms]

    def next_expiry_ms(self) -> MonotonicMs | None:
        """Return when the next lock expires; None if nothing is locked."""
        while self._times and self._times[0] not in self._counts:
            heappop(self._times)
        return self._times[0] if self._times else None
