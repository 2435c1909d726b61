"""Acquiring what was fetched for a member.

Owns: which records of a fetch a member is given, as one acquisition; how few of them once they have been delivered
often. Does not own: the fetch, its partition's place among others.
Invariant: what is acquired was available, or is new.

Kafka: SharePartition's acquire, acquireNewBatchRecords, createBatches and acquireSubsetBatchRecords. Unlike Kafka, the
start offset moves as soon as records are archived here: a long aborted transaction never fills the partition's locks.
"""

from oncelog.broker.sharing.fetched import Fetched, without_aborted
from oncelog.broker.sharing.in_flight import NO_GAP, InFlight
from oncelog.broker.sharing.in_flight_batch import InFlightBatch
from oncelog.broker.sharing.values import (
    ACQUIRED,
    AVAILABLE,
    RECORD_LIMIT,
    AcquiredRecords,
    Acquisition,
    Run,
    ShareLimits,
)
from oncelog.broker.turns.ports import MonotonicMs

_LEAST_THROTTLED_DELIVERIES = 2
"""The deliveries of a record after which the batches with it become smaller, as in Kafka."""


class Acquiring:
    """One acquisition, while it is made."""

    __slots__ = (
        "_acquired",
        "_fetched",
        "_in_flight",
        "_is_record_limit",
        "_locked_until_ms",
        "_member_id",
        "_more",
        "_request",
    )

    def __init__(self, in_flight: InFlight, member_id: str, request: Acquisition, fetched: Fetched) -> None:
        self._in_flight = in_flight
        self._member_id = member_id
        self._request = request
        self._fetched = fetched
        self._is_record_limit = request.acquire_mode == RECORD_LIMIT
        self._locked_until_ms = MonotonicMs(request.monotonic_ms + request.limits.record_lock_duration_ms)
        self._acquired: list[AcquiredRecords] = []
        self._more = 0
        """How many records may still be acquired."""

    def acquire(self) -> list[AcquiredRecords]:
        """Acquire what may be, and return it in order. Changes the records in flight."""
        in_flight, fetched = self._in_flight, self._fetched
        if self._request.max_records <= 0 or fetched.last_offset < in_flight.start:
            return []
        if fetched.fetch_offset < fetched.first_offset:
            # Compaction has removed what was to be read: it is never delivered again.
            in_flight.archive(fetched.fetch_offset, fetched.first_offset - 1, (AVAILABLE,))
            in_flight.close_gaps(fetched.fetch_offset, fetched.first_offset)
        last_offset = self._with_limit()
        if self._more > 0 and fetched.first_offset <= last_offset:
            self._acquire_until(last_offset)
        aborted = [batch for batch in fetched.batches if batch.is_aborted]
        for batch in aborted:
            in_flight.archive(batch.base_offset, batch.last_offset, (AVAILABLE, ACQUIRED))
        in_flight.advance()
        return without_aborted(self._acquired, aborted)

    def _with_limit(self) -> int:
        """Set how many records may be acquired, and return the last offset that may be."""
        in_flight, fetched = self._in_flight, self._fetched
        free = self._request.limits.partition_max_record_locks - in_flight.record_count
        if free > 0 or fetched.fetch_offset > in_flight.end:
            self._more = min(self._request.max_records, free)
            return fetched.last_offset
        # No new record is locked, but what is in flight and available again is delivered.
        self._more = min(self._request.max_records, in_flight.end - fetched.fetch_offset + 1)
        return min(fetched.last_offset, in_flight.end)

    def _acquire_until(self, last_offset: int) -> None:
        in_flight, limits = self._in_flight, self._request.limits
        fetched_offset = self._fetched.first_offset
        position = max(fetched_offset, in_flight.start)
        for batch in in_flight.overlapping(fetched_offset, last_offset):
            if self._more > 0 and in_flight.gap_offset != NO_GAP and position < batch.first_offset:
                self._acquire_new(position, batch.first_offset - 1)
            if self._more <= 0:
                return
            is_throttled = _is_throttled(batch, fetched_offset, last_offset, limits)
            if is_throttled and self._acquired:
                # The batch is left to a fetch of its own: so a bad record takes few others with it.
                return
            if self._acquire_again(batch, fetched_offset, last_offset) and is_throttled:
                return
            position = batch.last_offset + 1
        if self._more > 0 and position <= last_offset:
            self._acquire_new(position, last_offset)

    def _acquire_new(self, first_offset: int, last_offset: int) -> None:
        """Acquire offsets that are in no batch yet."""
        in_flight, more = self._in_flight, self._more
        if more < last_offset - first_offset + 1:
            # A soft limit: the whole batch of the log becomes one in flight, of which record_limit acquires less.
            last_offset = min(last_offset, self._fetched.end_of_batch_at(first_offset + more - 1))
        if self._is_record_limit:
            acquired_offset = min(last_offset, first_offset + more - 1)
            batch = InFlightBatch(self._locked(first_offset, last_offset, 1))
            in_flight.add(batch)
            if acquired_offset < last_offset:
                in_flight.put(batch, Run(acquired_offset + 1, last_offset, AVAILABLE, 0))
            self._give(first_offset, acquired_offset)
            return
        for first, last in self._cut_new(first_offset, last_offset):
            in_flight.add(InFlightBatch(self._locked(first, last, 1)))
            self._give(first, last)

    def _cut_new(self, first_offset: int, last_offset: int) -> list[tuple[int, int]]:
        """Cut a range where the log's batches meet and the wanted size is reached."""
        batch_size = self._request.batch_size
        ranges: list[tuple[int, int]] = []
        if last_offset - first_offset + 1 > batch_size:
            for batch in self._fetched.batches:
                if batch.base_offset > last_offset:
                    break
                if batch.base_offset - first_offset >= batch_size:
                    ranges.append((first_offset, batch.base_offset - 1))
                    first_offset = batch.base_offset
        ranges.append((first_offset, last_offset))
        return ranges

    def _acquire_again(self, batch: InFlightBatch, first_offset: int, last_offset: int) -> int:
        """Acquire what is available of a batch in flight, within an offset range. Return how many records that are."""
        delivery_count_limit = self._request.limits.delivery_count_limit
        throttled_from = _throttled_from(delivery_count_limit)
        isolates = delivery_count_limit > _LEAST_THROTTLED_DELIVERIES
        acquired_count, most = 0, -1
        for run in batch.runs_within(first_offset, last_offset):
            if run.state != AVAILABLE:
                continue
            is_last_delivery = isolates and run.delivery_count == delivery_count_limit - 1
            if is_last_delivery and acquired_count:
                break
            if most < 0 and run.delivery_count >= throttled_from:
                most = max(1, batch.record_count >> (run.delivery_count - throttled_from + 1))
            take = 1 if is_last_delivery else run.last_offset - run.first_offset + 1
            if self._is_record_limit:
                take = min(take, self._more - acquired_count)
            if acquired_count < most:
                # As in Kafka, records before the first that is throttled may be more than that: then all are taken.
                take = min(take, most - acquired_count)
            last = run.first_offset + take - 1
            self._in_flight.put(batch, self._locked(run.first_offset, last, run.delivery_count + 1))
            self._acquired.append(AcquiredRecords(run.first_offset, last, run.delivery_count + 1))
            acquired_count += take
            if is_last_delivery or acquired_count == most or (self._is_record_limit and acquired_count == self._more):
                break
        self._more -= acquired_count
        return acquired_count

    def _locked(self, first_offset: int, last_offset: int, delivery_count: int) -> Run:
        return Run(first_offset, last_offset, ACQUIRED, delivery_count, self._member_id, self._locked_until_ms)

    def _give(self, first_offset: int, last_offset: int) -> None:
        self._acquired.append(AcquiredRecords(first_offset, last_offset, 1))
        self._more -= last_offset - first_offset + 1


def _throttled_from(delivery_count_limit: int) -> int:
    """Return how often a record was delivered when the batches with it begin to become smaller: half of the limit, as
    Kafka."""
    return max(_LEAST_THROTTLED_DELIVERIES, (delivery_count_limit + 1) // 2)


def _is_throttled(batch: InFlightBatch, first_offset: int, last_offset: int, limits: ShareLimits) -> bool:
    throttled_from = _throttled_from(limits.delivery_count_limit)
    for run in batch.runs_within(first_offset, last_offset):
        if run.state == AVAILABLE and run.delivery_count >= throttled_from:
            return True
    return False
