"""Share-partitions for tests: made, fetched for, acknowledged and read in few words."""

from collections.abc import Sequence

from oncelog.broker.coordinator.share.values import ShareState, StateBatch
from oncelog.broker.sharing.fetched import Fetched, FetchedBatch
from oncelog.broker.sharing.partition import SharePartition
from oncelog.broker.sharing.values import (
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    AcknowledgementBatch,
    Acquisition,
    Run,
    ShareLimits,
    StateChange,
)
from oncelog.broker.turns.ports import MonotonicMs

LIMITS = ShareLimits(
    record_lock_duration_ms=30_000,
    delivery_count_limit=5,
    partition_max_record_locks=2000,
    renew_acknowledge_enable=True,
)
NOW = MonotonicMs(1_000)
LOCKED = MonotonicMs(NOW + LIMITS.record_lock_duration_ms)


def partition(start_offset: int = 0, *batches: tuple[int, int, int, int]) -> SharePartition:
    return SharePartition(ShareState(1, 0, start_offset, 0, tuple(StateBatch(*batch) for batch in batches)))


def fetched(*batches: tuple[int, int] | FetchedBatch, at: int | None = None) -> Fetched:
    found = [batch if isinstance(batch, FetchedBatch) else FetchedBatch(*batch) for batch in batches]
    return Fetched(found[0].base_offset if at is None else at, found)


def acquire(
    share: SharePartition,
    *batches: tuple[int, int] | FetchedBatch,
    member: str = "a",
    max_records: int = 500,
    batch_size: int = 500,
    is_record_limit: bool = False,
    limits: ShareLimits = LIMITS,
    at: int | None = None,
    now: int = NOW,
) -> list[tuple[int, int, int]]:
    mode = RECORD_LIMIT if is_record_limit else BATCH_OPTIMIZED
    request = Acquisition(max_records, batch_size, mode, limits, MonotonicMs(now))
    acquired = share.acquire(member, request, fetched(*batches, at=at))
    return [(first, last, count) for first, last, count in acquired]


def decide(
    share: SharePartition,
    *batches: tuple[int, int, Sequence[int]],
    member: str = "a",
    limits: ShareLimits = LIMITS,
    now: int = NOW,
) -> StateChange:
    return share.acknowledge(member, [AcknowledgementBatch(*batch) for batch in batches], limits, MonotonicMs(now))


def acknowledge(
    share: SharePartition, first: int, last: int, *types: int, member: str = "a", limits: ShareLimits = LIMITS
) -> None:
    share.apply(decide(share, (first, last, types), member=member, limits=limits))


def release(share: SharePartition, member: str = "a", limits: ShareLimits = LIMITS) -> None:
    share.apply(share.release(member, limits))


def states(share: SharePartition) -> list[tuple[int, int, int, int]]:
    """First and last offset, state and delivery count of everything in flight."""
    return [run[:4] for run in share.runs()]


def owners(share: SharePartition) -> list[tuple[int, int, str]]:
    return [(run.first_offset, run.last_offset, run.member_id) for run in share.runs()]


def locks(share: SharePartition) -> list[Run]:
    return [run for run in share.runs() if run.member_id]
