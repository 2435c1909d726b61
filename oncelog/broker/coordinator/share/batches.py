"""Combines the state batches of a share-partition: those known so far, and those that a write adds.

Owns: which state an offset has if several batches contain it: that with the most deliveries, then that with the highest
delivery state, as an acknowledged offset is never available again. What is below the start offset is over.
Invariant: what is returned is sorted, does not overlap, and no two batches could be one.

The result is that of Kafka's PersisterStateBatchCombiner, found in one sweep.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from oncelog.broker.coordinator.share.values import UNINITIALIZED_START_OFFSET, StateBatch


def combined(known: Sequence[StateBatch], added: Sequence[StateBatch], start_offset: int) -> tuple[StateBatch, ...]:
    """Return the batches from `start_offset` on; −1 means that there is no start yet, and so all of them. `known` is
    what this has returned before."""
    known, added = _from(start_offset, known), _from(start_offset, added)
    if not added:
        return tuple(known)
    # The others stay as they are: there may be thousands, and most writes add a few.
    first_offset = min(batch.first_offset for batch in added)
    last_offset = max(batch.last_offset for batch in added)
    begin = bisect_left(known, first_offset - 1, key=_last_offset)
    end = max(begin, bisect_right(known, last_offset + 1, key=_first_offset))
    return (*known[:begin], *_swept([*known[begin:end], *added]), *known[end:])


def _first_offset(batch: StateBatch) -> int:
    return batch.first_offset


def _last_offset(batch: StateBatch) -> int:
    return batch.last_offset


def _swept(batches: list[StateBatch]) -> list[StateBatch]:
    batches.sort()
    result: list[StateBatch] = []
    open_batches: list[tuple[int, int, int]] = []
    """The batches that may contain the position, as (−count, −state, last offset): the first decides."""
    index, position = 0, 0
    while open_batches or index < len(batches):
        if not open_batches:
            position = batches[index].first_offset
        while index < len(batches) and batches[index].first_offset <= position:
            batch = batches[index]
            heappush(open_batches, (-batch.delivery_count, -batch.delivery_state, batch.last_offset))
            index += 1
        while open_batches and open_batches[0][2] < position:
            heappop(open_batches)
        if open_batches:
            count, state, last_offset = open_batches[0]
            if index < len(batches) and batches[index].first_offset <= last_offset:
                last_offset = batches[index].first_offset - 1
            _append(result, StateBatch(position, last_offset, -state, -count))
            position = last_offset + 1
    return result


def _from(start_offset: int, batches: Sequence[StateBatch]) -> Sequence[StateBatch]:
    if start_offset == UNINITIALIZED_START_OFFSET or all(batch.first_offset >= start_offset for batch in batches):
        return batches
    return [
        batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
        for batch in batches
        if batch.last_offset >= start_offset
    ]


def _append(result: list[StateBatch], batch: StateBatch) -> None:
    if result:
        before = result[-1]
        is_next = before.last_offset + 1 == batch.first_offset
        if is_next and before[2:] == batch[2:]:
            result[-1] = before._replace(last_offset=batch.last_offset)
            return
    result.append(batch)
