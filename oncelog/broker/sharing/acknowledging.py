"""Deciding what becomes of acquired records: acknowledged, released by their member, or their lock expired.

Owns: the checks of an acknowledgement, and which state follows. Changes nothing.
Invariant: an acknowledgement is allowed for all of its offsets, or refused. In Kafka the locks that a refused one has
renewed stay renewed.

KIPs: 932, 1222 (renewal). Kafka: SharePartition's acknowledge, releaseAcquiredRecords, releaseAcquisitionLockOnTimeout.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from oncelog.broker.coordinator.share.values import StateBatch
from oncelog.broker.sharing.in_flight import InFlight
from oncelog.broker.sharing.in_flight_batch import InFlightBatch
from oncelog.broker.sharing.values import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    NO_MEMBER,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    Run,
    ShareLimits,
)
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError

_NOT_CACHED: Final = "Batch record not found. The request batch offsets are not found in the cache."
_FIRST_PAST: Final = "Batch record not found. The first offset in request is past acquired records."
_LAST_PAST: Final = "Batch record not found. The last offset in request is past acquired records."
_BATCH_NOT_ACQUIRED: Final = "The batch cannot be acknowledged. The batch is not in the acquired state."
_OFFSET_NOT_ACQUIRED: Final = "The offset cannot be acknowledged. The offset is not acquired."
_NOT_OWNER_OF_BATCH: Final = "Member is not the owner of batch record"
_NOT_OWNER_OF_OFFSET: Final = "Member is not the owner of offset"
_NO_RENEWAL: Final = "Renewing acquisition locks is not enabled for the group."


def acknowledged(
    in_flight: InFlight,
    member_id: str,
    batches: Sequence[AcknowledgementBatch],
    limits: ShareLimits,
    monotonic_ms: MonotonicMs,
) -> list[Run]:
    """Return the runs as they are after an acknowledgement, in order. Raises INVALID_RECORD_STATE, INVALID_REQUEST."""
    locked_until_ms = MonotonicMs(monotonic_ms + limits.record_lock_duration_ms)
    runs: list[Run] = []
    for batch in batches:
        _check_types(batch)
        if batch.last_offset < in_flight.start:
            continue  # Archived meanwhile: there is nothing left to acknowledge.
        for cached in _cached(in_flight, batch):
            for run in cached.runs_within(max(batch.first_offset, in_flight.start), batch.last_offset):
                _check_owner(cached, run, member_id)
                for part, acknowledge_type in _by_type(run, batch):
                    if acknowledge_type == RENEW:
                        if not limits.renew_acknowledge_enable:
                            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NO_RENEWAL)
                        runs.append(part._replace(locked_until_ms=locked_until_ms))
                    else:
                        runs.append(_ended(part, acknowledge_type, limits))
    return _in_order(runs)


def released(in_flight: InFlight, member_id: str, limits: ShareLimits) -> list[Run]:
    """Return what a member has acquired, as it is once released."""
    return [
        _ended(run, RELEASE, limits)
        for batch in in_flight.batches
        for run in batch
        if run.state == ACQUIRED and run.member_id == member_id
    ]


def expired(in_flight: InFlight, monotonic_ms: MonotonicMs, limits: ShareLimits) -> list[Run]:
    """Return what is locked no longer, as it is once released."""
    return [
        _ended(run, RELEASE, limits)
        for batch in in_flight.batches
        for run in batch
        if run.state == ACQUIRED and run.locked_until_ms <= monotonic_ms
    ]


def to_write(runs: Sequence[Run]) -> tuple[StateBatch, ...]:
    """Return the changed states as the share coordinator stores them: without locks, as few batches as possible."""
    batches: list[StateBatch] = []
    for run in runs:
        if run.state == ACQUIRED:
            continue
        if batches:
            before = batches[-1]
            if before.last_offset + 1 == run.first_offset and before[2:] == run[2:4]:
                batches[-1] = StateBatch(before.first_offset, run.last_offset, run.state, run.delivery_count)
                continue
        batches.append(StateBatch(run.first_offset, run.last_offset, run.state, run.delivery_count))
    return tuple(batches)


def _check_types(batch: AcknowledgementBatch) -> None:
    """Kafka checks this before as well, in the request."""
    types = batch.acknowledge_types
    count = len(types)
    if count not in (1, batch.last_offset - batch.first_offset + 1) or not count:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    if min(types) < GAP or max(types) > RENEW:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Invalid acknowledge type: {list(types)}")


def _cached(in_flight: InFlight, batch: AcknowledgementBatch) -> list[InFlightBatch]:
    """Return the batches in flight that an acknowledgement is about; it may end in none that is not."""
    first_offset = max(batch.first_offset, in_flight.start)
    before = in_flight.index_at(first_offset)
    if before < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _NOT_CACHED)
    last = in_flight.batches[in_flight.index_at(batch.last_offset)]
    if last.last_offset < batch.first_offset:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _FIRST_PAST)
    if last.last_offset < batch.last_offset:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _LAST_PAST)
    return in_flight.overlapping(first_offset, batch.last_offset)


def _check_owner(batch: InFlightBatch, run: Run, member_id: str) -> None:
    if run.member_id == member_id != NO_MEMBER:
        return
    if run.state != ACQUIRED:
        message = _OFFSET_NOT_ACQUIRED if batch.is_split else _BATCH_NOT_ACQUIRED
    else:
        message = _NOT_OWNER_OF_OFFSET if batch.is_split else _NOT_OWNER_OF_BATCH
    raise KafkaError(ErrorCode.INVALID_RECORD_STATE, message)


def _by_type(run: Run, batch: AcknowledgementBatch) -> Iterator[tuple[Run, int]]:
    """Yield the parts of a run that have the same type in the acknowledgement, and that type."""
    types = batch.acknowledge_types
    if len(types) == 1:
        yield run, types[0]
        return
    offset = run.first_offset
    while offset <= run.last_offset:
        acknowledge_type = types[offset - batch.first_offset]
        last_offset = offset
        while last_offset < run.last_offset and types[last_offset + 1 - batch.first_offset] == acknowledge_type:
            last_offset += 1
        yield run._replace(first_offset=offset, last_offset=last_offset), acknowledge_type
        offset = last_offset + 1


def _ended(run: Run, acknowledge_type: int, limits: ShareLimits) -> Run:
    """Return a run as it is after an acknowledgement. What was delivered as often as allowed is not released."""
    if acknowledge_type == ACCEPT:
        state = ACKNOWLEDGED
    elif acknowledge_type == RELEASE and run.delivery_count < limits.delivery_count_limit:
        state = AVAILABLE
    else:
        state = ARCHIVED
    return Run(run.first_offset, run.last_offset, state, run.delivery_count)


def _in_order(runs: list[Run]) -> list[Run]:
    """Sort the runs; an offset that is in two of them is acknowledged twice, which is refused."""
    runs.sort()
    for before, run in pairwise(runs):
        if run.first_offset <= before.last_offset:
            raise KafkaError(ErrorCode.INVALID_RECORD_STATE, _OFFSET_NOT_ACQUIRED)
    return runs
