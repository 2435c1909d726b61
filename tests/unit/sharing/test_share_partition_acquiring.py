"""Acquiring records (KIP-932, KIP-1206): which of what was fetched a member is given."""

import pytest

from oncelog.broker.sharing.fetched import FetchedBatch
from oncelog.broker.sharing.values import ACCEPT, ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, REJECT, RELEASE
from tests.unit.sharing.share_partitions import (
    LIMITS,
    LOCKED,
    acknowledge,
    acquire,
    locks,
    owners,
    partition,
    release,
    states,
)


def test_new_records_are_acquired_once() -> None:
    """A second member gets what comes after the first one's records, never the same ones."""
    share = partition()
    assert acquire(share, (0, 9)) == [(0, 9, 1)]
    assert acquire(share, (0, 9), (10, 14), member="b", at=10) == [(10, 14, 1)]
    assert owners(share) == [(0, 9, "a"), (10, 14, "b")]
    assert share.next_fetch_offset == 15
    assert [run.locked_until_ms for run in locks(share)] == [LOCKED, LOCKED]


def test_a_batch_is_one_run_while_its_records_share_a_fate() -> None:
    """500 records cost what one costs, until single ones of them are acknowledged."""
    share = partition()
    acquire(share, (0, 499))
    assert len(share.runs()) == 1
    acknowledge(share, 100, 100, REJECT)
    assert states(share) == [(0, 99, ACQUIRED, 1), (100, 100, ARCHIVED, 1), (101, 499, ACQUIRED, 1)]
    for offset in (*range(99), *range(101, 499)):
        acknowledge(share, offset, offset, ACCEPT)
    assert states(share)[-1] == (499, 499, ACQUIRED, 1)
    assert len(share.runs()) == 5


@pytest.mark.parametrize(
    ("batch_size", "ranges"),
    [
        (500, [(0, 14, 1)]),
        (15, [(0, 14, 1)]),
        (14, [(0, 14, 1)]),
        (10, [(0, 9, 1), (10, 14, 1)]),
        (5, [(0, 4, 1), (5, 9, 1), (10, 14, 1)]),
        (6, [(0, 9, 1), (10, 14, 1)]),
        (1, [(0, 4, 1), (5, 9, 1), (10, 14, 1)]),
    ],
)
def test_acquired_ranges_end_where_batches_of_the_log_do(batch_size: int, ranges: list[tuple[int, int, int]]) -> None:
    """The batch size is a soft limit: a range is cut at the first batch that begins so many offsets behind it."""
    assert acquire(partition(), (0, 4), (5, 9), (10, 14), batch_size=batch_size) == ranges


@pytest.mark.parametrize(("max_records", "last_offset"), [(1, 4), (5, 4), (6, 9), (14, 14), (15, 14), (100, 14)])
def test_the_limit_of_records_is_soft_in_batch_optimized_mode(max_records: int, last_offset: int) -> None:
    """The batch of the log that has the last record is acquired to its end."""
    assert acquire(partition(), (0, 4), (5, 9), (10, 14), max_records=max_records) == [(0, last_offset, 1)]


def test_the_limit_of_records_is_strict_in_record_limit_mode() -> None:
    """The rest of the batch is available at once, never delivered so far, and is acquired by the next fetch."""
    share = partition()
    assert acquire(share, (0, 9), (10, 19), max_records=3, is_record_limit=True) == [(0, 2, 1)]
    assert states(share) == [(0, 2, ACQUIRED, 1), (3, 9, AVAILABLE, 0)]
    assert share.next_fetch_offset == 3
    assert acquire(share, (0, 9), (10, 19), member="b", max_records=9, is_record_limit=True, at=3) == [
        (3, 9, 1),
        (10, 11, 1),
    ]
    assert share.next_fetch_offset == 12


def test_record_limit_mode_ignores_the_batch_size() -> None:
    share = partition()
    assert acquire(share, (0, 4), (5, 9), batch_size=1, is_record_limit=True) == [(0, 9, 1)]
    assert share.in_flight_batch_count == 1


def test_record_limit_mode_takes_a_part_of_what_was_released() -> None:
    """A whole batch in flight that is larger than the limit is split."""
    share = partition()
    acquire(share, (0, 9))
    release(share)
    assert acquire(share, (0, 9), max_records=4, is_record_limit=True) == [(0, 3, 2)]
    assert states(share) == [(0, 3, ACQUIRED, 2), (4, 9, AVAILABLE, 1)]


def test_nothing_is_acquired_without_a_limit_left() -> None:
    """The last partitions of a request have none, if others gave it all its records."""
    share = partition()
    assert acquire(share, (0, 9), max_records=0) == []
    assert share.in_flight_count == 0


def test_as_many_records_are_in_flight_as_there_may_be_locks() -> None:
    """New records must wait then, and those that are available again need not."""
    limits = LIMITS._replace(partition_max_record_locks=20)
    share = partition()
    assert acquire(share, (0, 9), limits=limits) == [(0, 9, 1)]
    assert acquire(share, (10, 19), (20, 29), limits=limits) == [(10, 19, 1)]
    assert not share.can_acquire(limits)
    assert acquire(share, (20, 29), limits=limits) == []
    acknowledge(share, 5, 5, RELEASE)
    assert share.can_acquire(limits)
    assert acquire(share, (0, 9), (10, 19), (20, 29), limits=limits, at=5) == [(5, 5, 2)]
    acknowledge(share, 0, 9, ACCEPT)
    assert acquire(share, (20, 29), limits=limits) == [(20, 29, 1)]


def test_released_records_are_fetched_first() -> None:
    """The next fetch begins at the first available record, and also acquires what is new behind it."""
    share = partition()
    acquire(share, (0, 4), (5, 9), batch_size=5)
    acknowledge(share, 5, 9, RELEASE)
    assert share.next_fetch_offset == 5
    assert acquire(share, (5, 9), (10, 14), member="b") == [(5, 9, 2), (10, 14, 1)]
    assert owners(share) == [(0, 4, "a"), (5, 9, "b"), (10, 14, "b")]


def test_neighbours_with_different_delivery_counts_are_different_ranges() -> None:
    share = partition()
    acquire(share, (0, 9))
    acknowledge(share, 3, 5, RELEASE)
    acquire(share, (0, 9), at=3)
    release(share)
    assert acquire(share, (0, 9)) == [(0, 2, 2), (3, 5, 3), (6, 9, 2)]


def delivered(times: int, count: int = 500, limit: int = 10) -> list[tuple[int, int, int]]:
    """The last delivery of one batch to a member that rejects and acknowledges nothing."""
    limits = LIMITS._replace(delivery_count_limit=limit)
    share = partition()
    for _ in range(times):
        acquired = acquire(share, (0, count - 1), limits=limits, at=share.next_fetch_offset)
        release(share, limits=limits)
    return acquired


@pytest.mark.parametrize(
    ("times", "acquired"),
    [
        (5, [(0, 499, 5)]),
        (6, [(0, 249, 6)]),
        (7, [(0, 124, 7)]),
        (8, [(0, 61, 8)]),
        (9, [(0, 30, 9)]),
        (10, [(0, 0, 10)]),
        (11, [(1, 1, 10)]),
        (40, [(30, 30, 10)]),
    ],
)
def test_a_batch_that_fails_again_and_again_is_delivered_in_smaller_parts(
    times: int, acquired: list[tuple[int, int, int]]
) -> None:
    """Each delivery from half of the limit on has half as many records, and the last one a single record: one that
    breaks its consumers takes no others with it.
    """
    assert delivered(times) == acquired


def test_a_limit_of_two_deliveries_isolates_nothing() -> None:
    assert delivered(2, limit=2) == [(0, 499, 2)]


def test_a_record_before_its_last_delivery_is_left_to_a_fetch_of_its_own() -> None:
    """Other records of its batch that come before it are delivered without it."""
    limits = LIMITS._replace(delivery_count_limit=3)
    share = partition()
    acquire(share, (0, 2), limits=limits)
    acknowledge(share, 1, 1, RELEASE, limits=limits)
    acquire(share, (0, 2), limits=limits, at=1)
    release(share, limits=limits)
    assert states(share) == [(0, 0, AVAILABLE, 1), (1, 1, AVAILABLE, 2), (2, 2, AVAILABLE, 1)]
    assert acquire(share, (0, 2), limits=limits) == [(0, 0, 2)]
    assert acquire(share, (0, 2), limits=limits, at=1) == [(1, 1, 3)]
    assert acquire(share, (0, 2), limits=limits, at=2) == [(2, 2, 2)]


def test_a_batch_that_is_throttled_is_not_acquired_behind_another() -> None:
    """It is left to the next fetch, which has nothing else."""
    share = partition(0, (0, 9, AVAILABLE, 1), (10, 19, AVAILABLE, 3))
    assert acquire(share, (0, 9), (10, 19), (20, 29)) == [(0, 9, 2)]
    assert share.next_fetch_offset == 10
    assert acquire(share, (10, 19), (20, 29)) == [(10, 14, 4)]
    assert share.next_fetch_offset == 15


def test_what_was_acquired_before_a_restart_is_read_again() -> None:
    """It is unknown to the share coordinator, so it is delivered as new, up to what is known behind it."""
    share = partition(10, (21, 30, ACKNOWLEDGED, 1), (41, 45, AVAILABLE, 2))
    assert (share.start_offset, share.next_fetch_offset) == (10, 10)
    assert acquire(share, (10, 15)) == [(10, 15, 1)]
    assert share.next_fetch_offset == 16
    assert acquire(share, (16, 33), member="b") == [(16, 20, 1), (31, 33, 1)]
    assert share.next_fetch_offset == 34
    assert acquire(share, (34, 60), member="b") == [(34, 40, 1), (41, 45, 3), (46, 60, 1)]
    assert share.next_fetch_offset == 61


def test_a_limit_is_kept_within_a_gap() -> None:
    """The batch of the log reaches behind the gap, what is acquired does not."""
    share = partition(10, (15, 30, ACKNOWLEDGED, 1))
    assert acquire(share, (10, 30), max_records=1) == [(10, 14, 1)]
    assert share.next_fetch_offset == 31


def test_a_gap_that_compaction_has_emptied_holds_nothing_up() -> None:
    """The log has nothing between the start offset and what is done: all of it is done."""
    share = partition(10, (21, 30, ACKNOWLEDGED, 1))
    assert acquire(share, (21, 30), at=10) == []
    assert (share.start_offset, share.next_fetch_offset) == (31, 31)


def test_released_records_that_compaction_has_removed_are_archived() -> None:
    """A fetch at the first of them returns a later batch."""
    share = partition()
    acquire(share, (0, 9), (10, 19), batch_size=10)
    release(share)
    assert acquire(share, (10, 19), at=0) == [(10, 19, 2)]
    assert (share.start_offset, share.delivery_complete_count) == (10, 0)


def test_a_first_batch_behind_the_start_offset_moves_it() -> None:
    share = partition(3)
    assert acquire(share, (7, 9), at=3) == [(7, 9, 1)]
    assert (share.start_offset, share.in_flight_count) == (7, 3)


def test_a_first_batch_that_begins_before_the_start_offset_is_acquired_from_there() -> None:
    share = partition(5)
    assert acquire(share, (0, 9), at=5) == [(5, 9, 1)]
    assert states(share) == [(5, 9, ACQUIRED, 1)]


def test_a_fetch_that_ends_before_the_start_offset_acquires_nothing() -> None:
    """The log's start moved while it was read."""
    share = partition(10)
    assert acquire(share, (0, 9), at=0) == []
    assert share.in_flight_count == 0


def test_aborted_records_are_archived_and_never_handed_out() -> None:
    """The records between them are handed out, in as many ranges as are left."""
    share = partition()
    batches = [FetchedBatch(*one) for one in ((0, 1), (2, 3, 1, True), (4, 6), (7, 7, 1, True), (8, 9, 1, True))]
    assert acquire(share, *batches) == [(0, 1, 1), (4, 6, 1)]
    assert states(share) == [(0, 1, ACQUIRED, 1), (2, 3, ARCHIVED, 1), (4, 6, ACQUIRED, 1), (7, 9, ARCHIVED, 1)]
    assert (share.next_fetch_offset, share.delivery_complete_count) == (10, 5)
    acknowledge(share, 0, 1, ACCEPT)
    assert share.start_offset == 4


def test_a_long_aborted_transaction_does_not_fill_the_locks() -> None:
    """Its records are done at once, so the start offset follows and the next ones may be acquired."""
    limits = LIMITS._replace(partition_max_record_locks=10)
    share = partition()
    for first in range(0, 100, 10):
        assert share.can_acquire(limits)
        assert acquire(share, FetchedBatch(first, first + 9, 1, True), limits=limits) == []
    assert (share.start_offset, share.in_flight_count, share.next_fetch_offset) == (100, 0, 100)


def test_an_aborted_batch_is_archived_as_a_whole_in_record_limit_mode() -> None:
    """Its records that the limit left available are archived too."""
    share = partition()
    assert acquire(share, FetchedBatch(0, 9, 1, True), (10, 19), max_records=2, is_record_limit=True) == []
    assert share.next_fetch_offset == 10


def test_a_member_that_left_and_another_one_meet_in_one_batch() -> None:
    """Records that are available in parts are acquired in parts, each with its delivery count."""
    share = partition()
    acquire(share, (0, 9))
    acknowledge(share, 0, 9, RELEASE, ACCEPT, RELEASE, RELEASE, REJECT, *[RELEASE] * 5)
    assert acquire(share, (0, 9), member="b") == [(0, 0, 2), (2, 3, 2), (5, 9, 2)]
    assert states(share)[0:3] == [(0, 0, ACQUIRED, 2), (1, 1, ACKNOWLEDGED, 1), (2, 3, ACQUIRED, 2)]


def test_many_records_before_a_throttled_one_lift_its_limit() -> None:
    """The whole batch is delivered if it has more of them than the throttled part would have, as in Kafka."""
    share = partition()
    acquire(share, (0, 19))
    acknowledge(share, 12, 19, RELEASE)
    for _ in range(2):
        acquire(share, (0, 19), at=12)
        acknowledge(share, 12, 19, RELEASE)
    release(share)
    assert states(share) == [(0, 11, AVAILABLE, 1), (12, 19, AVAILABLE, 3)]
    assert acquire(share, (0, 19)) == [(0, 11, 2), (12, 19, 4)]
