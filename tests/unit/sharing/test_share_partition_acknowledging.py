"""Acknowledging, releasing and expiring (KIP-932, KIP-1222): what follows, what is written, and what is refused."""

from collections.abc import Sequence

import pytest

from oncelog.broker.sharing.values import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
)
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.unit.sharing.share_partitions import (
    LIMITS,
    LOCKED,
    NOW,
    acknowledge,
    acquire,
    decide,
    locks,
    owners,
    partition,
    release,
    states,
)


@pytest.mark.parametrize(
    ("kind", "state"), [(GAP, ARCHIVED), (ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED)]
)
def test_each_type_leads_to_its_state(kind: int, state: int) -> None:
    """It is written with the delivery count, and without the member that had it."""
    share = partition()
    acquire(share, (0, 9))
    change = decide(share, (5, 9, [kind]))
    assert change.batches == ((5, 9, state, 1),)
    share.apply(change)
    assert states(share) == [(0, 4, ACQUIRED, 1), (5, 9, state, 1)]
    assert owners(share)[1][2] == ""


def test_an_acknowledgement_changes_nothing_until_it_is_applied() -> None:
    """A change that the share coordinator refuses leaves no trace."""
    share = partition()
    acquire(share, (0, 9))
    before = share.runs()
    decide(share, (0, 4, [ACCEPT]), (5, 9, [RELEASE]))
    assert share.runs() == before
    assert (share.start_offset, share.delivery_complete_count, share.next_fetch_offset) == (0, 0, 10)


def test_neighbours_with_the_same_state_are_written_as_one_batch() -> None:
    share = partition()
    acquire(share, (0, 4), (5, 9), batch_size=5)
    change = decide(share, (0, 6, [ACCEPT]), (7, 9, [ACCEPT, REJECT, GAP]))
    assert change.batches == ((0, 7, ACKNOWLEDGED, 1), (8, 9, ARCHIVED, 1))
    assert (change.start_offset, change.delivery_complete_count) == (0, 10)


def test_the_start_offset_moves_over_what_is_done() -> None:
    """The start offset that is written is that before the change, as in Kafka; reading it back moves it again."""
    share = partition()
    acquire(share, (0, 9))
    acknowledge(share, 5, 9, ACCEPT)
    assert (share.start_offset, share.delivery_complete_count) == (0, 5)
    acknowledge(share, 0, 2, REJECT)
    assert (share.start_offset, share.delivery_complete_count) == (3, 5)
    change = decide(share, (3, 4, [ACCEPT]))
    assert (change.start_offset, change.delivery_complete_count) == (3, 7)
    share.apply(change)
    assert (share.start_offset, share.end_offset, share.in_flight_count) == (10, 10, 0)
    assert partition(3, (3, 9, ACKNOWLEDGED, 1)).start_offset == 10


@pytest.mark.parametrize(
    ("first", "last", "member", "code", "message"),
    [
        (0, 4, "b", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        (
            5,
            9,
            "a",
            ErrorCode.INVALID_RECORD_STATE,
            "The batch cannot be acknowledged. The batch is not in the acquired state.",
        ),
        (10, 10, "a", ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged. The offset is not acquired."),
        (11, 11, "b", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of offset"),
        (
            15,
            20,
            "a",
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The first offset in request is past acquired records.",
        ),
        (
            11,
            15,
            "a",
            ErrorCode.INVALID_REQUEST,
            "Batch record not found. The last offset in request is past acquired records.",
        ),
    ],
)
def test_what_is_not_acquired_by_the_member_is_refused(
    first: int, last: int, member: str, code: ErrorCode, message: str
) -> None:
    """The error and text are Kafka's; nothing changes."""
    share = partition()
    acquire(share, (0, 4), (5, 9), (10, 14), batch_size=5)
    acknowledge(share, 5, 9, RELEASE)
    acknowledge(share, 10, 10, ACCEPT)
    before = share.runs()
    with pytest.raises(KafkaError) as refused:
        decide(share, (first, last, [ACCEPT]), member=member)
    assert (refused.value.code, refused.value.message) == (code, message)
    assert share.runs() == before


def test_offsets_before_all_that_is_in_flight_are_not_found() -> None:
    """Offsets before the start offset are an exception."""
    share = partition(5, (10, 14, AVAILABLE, 1))
    with pytest.raises(KafkaError) as refused:
        decide(share, (6, 7, [ACCEPT]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE
    assert refused.value.message == "Batch record not found. The request batch offsets are not found in the cache."
    with pytest.raises(KafkaError, match="not found in the cache"):
        decide(partition(), (0, 0, [ACCEPT]))


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE, REJECT])
def test_a_late_acknowledgement_changes_nothing_and_is_an_error_until_the_group_is_past_the_record(kind: int) -> None:
    """Apache Kafka 4.3 answers the same, and docs/understand/share-groups.md says so."""

    def late(first: int, last: int) -> ErrorCode:
        before = share.runs()
        try:
            change = decide(share, (first, last, [kind]), member="late")
        except KafkaError as error:
            return error.code
        finally:
            assert share.runs() == before
        assert change.batches == ()
        return ErrorCode.NONE

    share = partition()
    acquire(share, (0, 5), member="late")
    release(share, "late")  # as the end of its lock does
    assert late(0, 0) == ErrorCode.INVALID_RECORD_STATE  # available
    acquire(share, (0, 5), member="other")
    acknowledge(share, 2, 4, ACCEPT, member="other")
    assert late(0, 0) == late(2, 2) == ErrorCode.INVALID_RECORD_STATE  # another's; accepted by another
    acknowledge(share, 0, 1, REJECT, member="other")
    assert (share.start_offset, late(0, 2)) == (5, ErrorCode.NONE)
    assert late(0, 5) == ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize("types", [[], [5], [-1], [ACCEPT, ACCEPT], [ACCEPT] * 11, [ACCEPT] * 9 + [7]])
def test_types_that_are_none_or_do_not_fit_are_refused(types: Sequence[int]) -> None:
    share = partition()
    acquire(share, (0, 9))
    with pytest.raises(KafkaError) as refused:
        decide(share, (0, 9, types))
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_an_unknown_type_is_named() -> None:
    share = partition()
    acquire(share, (0, 1))
    with pytest.raises(KafkaError, match=r"Invalid acknowledge type: \[1, 9\]"):
        decide(share, (0, 1, [ACCEPT, 9]))


def test_all_batches_of_an_acknowledgement_are_allowed_or_none() -> None:
    """The good one before a bad one changes nothing, and no lock is renewed."""
    share = partition()
    acquire(share, (0, 4), (5, 9), batch_size=5)
    acknowledge(share, 5, 9, ACCEPT)
    with pytest.raises(KafkaError):
        decide(share, (0, 1, [ACCEPT]), (2, 4, [RENEW]), (5, 9, [ACCEPT]), now=NOW + 10)
    assert states(share) == [(0, 4, ACQUIRED, 1), (5, 9, ACKNOWLEDGED, 1)]
    assert [run.locked_until_ms for run in locks(share)] == [LOCKED]


def test_an_offset_is_acknowledged_once_in_a_request() -> None:
    """Kafka allows a batch to begin where the one before it ends; that offset is acquired no longer."""
    share = partition()
    acquire(share, (0, 9))
    with pytest.raises(KafkaError) as refused:
        decide(share, (0, 5, [ACCEPT]), (5, 9, [RELEASE]))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_batches_of_an_acknowledgement_may_come_in_any_order() -> None:
    """They are written in that of their offsets, and a second one about the same offset is found all the same."""
    share = partition()
    acquire(share, (0, 9))
    assert decide(share, (5, 9, [ACCEPT]), (0, 4, [ACCEPT])).batches == ((0, 9, ACKNOWLEDGED, 1),)
    with pytest.raises(KafkaError):
        decide(share, (4, 9, [ACCEPT]), (0, 4, [ACCEPT]))


def test_an_acknowledgement_may_span_batches_and_holes_between_them() -> None:
    share = partition()
    acquire(share, (0, 4))
    acquire(share, (8, 9), at=5)
    change = decide(share, (0, 9, [ACCEPT]))
    assert change.batches == ((0, 4, ACKNOWLEDGED, 1), (8, 9, ACKNOWLEDGED, 1))
    assert change.delivery_complete_count == 7
    share.apply(change)
    assert (share.start_offset, share.in_flight_count) == (10, 0)


def test_a_record_is_released_no_more_often_than_the_limit() -> None:
    """It is archived at the limit: by its member, by the end of a session, and by the end of its lock."""
    limits = LIMITS._replace(delivery_count_limit=2)
    share = partition()
    acquire(share, (0, 2), limits=limits)
    release(share, limits=limits)
    assert states(share) == [(0, 2, AVAILABLE, 1)]
    acquire(share, (0, 2), limits=limits)
    acknowledge(share, 2, 2, RELEASE, limits=limits)
    assert states(share)[-1] == (2, 2, ARCHIVED, 2)
    assert share.release("a", limits).batches == ((0, 1, ARCHIVED, 2),)
    assert share.expire(LOCKED, limits).batches == ((0, 1, ARCHIVED, 2),)


def test_the_limit_is_that_of_the_moment() -> None:
    """A limit that was lowered meanwhile counts for records that were delivered before."""
    share = partition()
    acquire(share, (0, 0))
    assert share.release("a", LIMITS._replace(delivery_count_limit=1)).batches == ((0, 0, ARCHIVED, 1),)


def test_a_session_that_ends_releases_what_its_member_has_and_nothing_else() -> None:
    share = partition()
    acquire(share, (0, 4))
    acquire(share, (5, 9), member="b")
    acknowledge(share, 1, 1, ACCEPT)
    change = share.release("a", LIMITS)
    assert change.batches == ((0, 0, AVAILABLE, 1), (2, 4, AVAILABLE, 1))
    share.apply(change)
    assert owners(share)[-1] == (5, 9, "b")
    assert share.release("a", LIMITS).runs == ()
    assert share.next_fetch_offset == 0


def test_a_lock_expires_at_its_time() -> None:
    """Not a millisecond earlier, and each at its own."""
    share = partition()
    assert share.next_expiry_ms() is None
    acquire(share, (0, 4))
    acquire(share, (5, 9), member="b", now=NOW + 7)
    assert share.next_expiry_ms() == LOCKED
    assert share.expire(MonotonicMs(LOCKED - 1), LIMITS).runs == ()
    change = share.expire(LOCKED, LIMITS)
    assert change.batches == ((0, 4, AVAILABLE, 1),)
    share.apply(change)
    assert share.next_expiry_ms() == LOCKED + 7
    acknowledge(share, 5, 9, ACCEPT, member="b")
    assert share.next_expiry_ms() is None
    with pytest.raises(KafkaError):
        decide(share, (0, 4, [ACCEPT]))


def test_a_renewed_lock_lasts_as_long_again() -> None:
    """It is not written, and the records next to it keep their time."""
    share = partition()
    acquire(share, (0, 9))
    change = decide(share, (3, 5, [RENEW]), now=NOW + 100)
    assert change.batches == ()
    share.apply(change)
    assert [(run.first_offset, run.locked_until_ms) for run in locks(share)] == [
        (0, LOCKED),
        (3, LOCKED + 100),
        (6, LOCKED),
    ]
    share.apply(share.expire(LOCKED, LIMITS))
    assert locks(share)[0][:4] == (3, 5, ACQUIRED, 1)
    assert share.next_expiry_ms() == LOCKED + 100


def test_renewal_is_refused_where_the_group_does_not_allow_it() -> None:
    share = partition()
    acquire(share, (0, 9))
    with pytest.raises(KafkaError, match="Renewing acquisition locks is not enabled for the group") as refused:
        decide(share, (0, 9, [RENEW]), limits=LIMITS._replace(renew_acknowledge_enable=False))
    assert refused.value.code is ErrorCode.INVALID_RECORD_STATE


def test_the_lock_lasts_as_the_setting_said_when_it_was_taken() -> None:
    share = partition()
    acquire(share, (0, 4), limits=LIMITS._replace(record_lock_duration_ms=5))
    acquire(share, (5, 9))
    assert [run.locked_until_ms for run in locks(share)] == [NOW + 5, LOCKED]


def test_a_moved_log_start_takes_what_is_before_it() -> None:
    """Available and acquired records alike; their member's acknowledgement is no error, and changes nothing there."""
    share = partition()
    acquire(share, (0, 4), (5, 9), (10, 14), batch_size=5)
    acknowledge(share, 5, 6, RELEASE)
    change = share.move_start(8)
    assert change.batches == ()
    assert share.start_offset == 0
    share.apply(change)
    assert (share.start_offset, share.in_flight_count, share.next_fetch_offset) == (8, 7, 15)
    assert decide(share, (0, 4, [ACCEPT])).runs == ()
    assert decide(share, (7, 9, [ACCEPT])).batches == ((8, 9, ACKNOWLEDGED, 1),)
    with pytest.raises(KafkaError):
        decide(share, (7, 9, [ACCEPT]), member="b")
    assert share.release("a", LIMITS).batches == ((8, 14, AVAILABLE, 1),)


def test_a_log_start_behind_everything_begins_from_there() -> None:
    share = partition()
    acquire(share, (0, 9))
    share.apply(share.move_start(50))
    assert (share.start_offset, share.end_offset, share.next_fetch_offset) == (50, 50, 50)
    assert (share.in_flight_count, share.next_expiry_ms()) == (0, None)
    assert decide(share, (0, 9, [ACCEPT])).runs == ()
    assert acquire(share, (50, 54)) == [(50, 54, 1)]


def test_a_log_start_within_what_is_done_leaves_nothing_behind() -> None:
    """The start offset moves over what is done behind it; the records that are terminal there count no longer."""
    share = partition()
    acquire(share, (0, 9))
    acknowledge(share, 2, 7, ACCEPT)
    assert share.delivery_complete_count == 6
    change = share.move_start(5)
    assert (change.start_offset, change.delivery_complete_count) == (5, 3)
    share.apply(change)
    assert (share.start_offset, share.delivery_complete_count) == (8, 0)


def test_a_log_start_within_a_gap_shortens_it() -> None:
    share = partition(10, (31, 40, ACKNOWLEDGED, 1))
    share.apply(share.move_start(25))
    assert (share.start_offset, share.next_fetch_offset) == (25, 25)
    share.apply(share.move_start(31))
    assert (share.start_offset, share.next_fetch_offset) == (41, 41)


def test_an_earlier_log_start_changes_nothing() -> None:
    share = partition(10)
    share.apply(share.move_start(10))
    share.apply(share.move_start(3))
    assert share.start_offset == 10


def test_a_decision_is_applied_to_the_state_it_was_made_on() -> None:
    """Anything that has happened meanwhile makes it void."""
    share = partition()
    acquire(share, (0, 9))
    change, other = decide(share, (0, 4, [ACCEPT])), share.release("a", LIMITS)
    share.apply(other)
    with pytest.raises(ValueError, match="has changed since"):
        share.apply(change)
    change = share.release("a", LIMITS)
    acquire(share, (0, 9))
    with pytest.raises(ValueError, match="has changed since"):
        share.apply(change)


@pytest.mark.parametrize(
    "batches",
    [
        [(4, 9, AVAILABLE, 1)],
        [(9, 8, AVAILABLE, 1)],
        [(5, 9, ACQUIRED, 1)],
        [(5, 9, 3, 1)],
        [(5, 9, AVAILABLE, 1), (9, 12, ACKNOWLEDGED, 1)],
    ],
)
def test_a_state_that_cannot_be_is_refused(batches: list[tuple[int, int, int, int]]) -> None:
    """The states have a batch before the start offset, backwards, acquired, unknown, or twice there."""
    with pytest.raises(KafkaError) as refused:
        partition(5, *batches)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_state_that_is_read_back_has_no_locks() -> None:
    """Available records come first, terminal ones never again, and the start offset has moved over those before."""
    share = partition(5, (5, 9, ACKNOWLEDGED, 1), (10, 14, AVAILABLE, 3), (15, 20, ARCHIVED, 5))
    assert (share.start_offset, share.next_fetch_offset, share.delivery_complete_count) == (10, 10, 6)
    assert share.state_epoch == 1
    assert acquire(share, (10, 14), (15, 20), (21, 25), batch_size=5) == [(10, 11, 4)]
