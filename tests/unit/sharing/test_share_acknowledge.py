"""Acknowledgements and locks: what becomes of the records that a member has acquired."""

from typing import Any

import pytest

from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.clients.share_member import ACCEPT, REJECT, RELEASE, RENEW, acknowledge_errors, acquired, errors, rows
from tests.fakes.share_states import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from tests.unit.sharing.world import LOCK_MS, World, reading

NONE = ErrorCode.NONE


# --- acknowledgements -------------------------------------------------------------------------------------------------


def test_accepted_records_are_never_handed_out_again() -> None:
    """Neither to the members that are there, nor after the share-partition was read again."""
    world, member = reading(3)
    assert errors(member.acknowledge({world.keys[0]: [(0, 2, [ACCEPT])]})) == {world.keys[0]: NONE}
    member.close()
    assert not world.manager.partition_count
    assert acquired(world.member("other").fetch(world.keys)) == {}


def test_released_records_are_available_at_once_and_rejected_ones_never() -> None:
    """A delivery counts, whether it was released or not."""
    world = World()
    world.append(4)
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    first.acknowledge({world.keys[0]: [(0, 3, [ACCEPT, RELEASE, REJECT, RELEASE])]})
    states = world.states.states(world.state_key())
    assert states == {0: (ACKNOWLEDGED, 1), 1: (AVAILABLE, 1), 2: (ARCHIVED, 1), 3: (AVAILABLE, 1)}
    assert acquired(second.fetch(world.keys)) == {world.keys[0]: [(1, 1, 2), (3, 3, 2)]}


def test_acknowledgements_of_a_fetch_come_before_its_records() -> None:
    """A record that is released with a fetch may be in its response."""
    world, member = reading(2)
    response = member.fetch(acknowledged={world.keys[0]: [(0, 0, [RELEASE]), (1, 1, [ACCEPT])]})
    assert acquired(response) == {world.keys[0]: [(0, 0, 2)]}
    assert acknowledge_errors(response) == {world.keys[0]: NONE}


def test_a_response_says_of_a_partition_without_records_what_became_of_its_acknowledgement() -> None:
    """The response says so also if the partition is new to the session, or has an error."""
    world = World(partitions=2)
    world.append(2)
    member = world.member()
    member.fetch(world.keys[:1])
    response = member.fetch(
        acknowledged={world.keys[0]: [(0, 1, [ACCEPT])], world.keys[1]: [(0, 0, [ACCEPT])]}, max_wait_ms=0
    )
    assert acknowledge_errors(response) == {
        world.keys[0]: NONE,
        world.keys[1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_an_acknowledgement_is_answered_when_it_is_durable() -> None:
    """Neither request is answered before; the records are acknowledged already."""
    world, member = reading(2)
    world.states.is_slow = True
    reply = member.start_acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    assert not reply.is_there
    world.states.end_writes()
    world.broker.time.settle()
    assert errors(reply.message) == {world.keys[0]: NONE}
    member.epoch += 1
    reply = member.start_fetch(acknowledged={world.keys[0]: [(1, 1, [ACCEPT])]})
    assert not reply.is_there
    world.states.end_writes()
    world.broker.time.settle()
    assert acknowledge_errors(reply.message) == {world.keys[0]: NONE}


def test_a_refused_acknowledgement_changes_nothing() -> None:
    """The member still holds what it held, and may acknowledge it later."""
    world, member = reading(2)
    world.states.refusal = ErrorCode.NOT_COORDINATOR
    (data,) = rows(member.acknowledge({world.keys[0]: [(0, 1, [ACCEPT])]})).values()
    assert (data.error_code, data.error_message) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "refused")
    world.states.refusal = None
    assert not world.states.states(world.state_key())
    assert errors(member.acknowledge({world.keys[0]: [(0, 1, [ACCEPT])]})) == {world.keys[0]: NONE}


def test_a_fenced_share_partition_is_read_again() -> None:
    """After its offsets were reset its members hold nothing of it any more."""
    world, member = reading(3)
    world.states.initialize(world.state_key(), 1, 1)
    response = member.acknowledge({world.keys[0]: [(0, 2, [ACCEPT])]})
    (data,) = rows(response).values()
    assert data.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert data.current_leader.leader_id == 1 and response.node_endpoints[0].host == "broker.example"
    assert acquired(member.fetch()) == {world.keys[0]: [(1, 2, 1)]}


def test_an_accepted_write_that_fails_ends_the_share_partition() -> None:
    """A record that is not durable is not answered as acknowledged, and the state is read again."""
    world, member = reading()
    world.states.is_slow = True
    reply = member.start_acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    world.states.end_writes(KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "gone"))
    world.broker.time.settle()
    assert errors(reply.message) == {world.keys[0]: ErrorCode.UNKNOWN_SERVER_ERROR}
    assert not world.manager.partition_count


@pytest.mark.parametrize(
    ("batches", "error"),
    [
        ([(1, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [ACCEPT]), (0, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 1, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [5])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [-1])], ErrorCode.INVALID_REQUEST),
        ([(0, 0, [RENEW])], ErrorCode.INVALID_REQUEST),
        ([(0, 9, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([], NONE),
    ],
)
def test_an_acknowledgement_that_contradicts_itself_is_refused(
    batches: list[tuple[int, int, list[int]]], error: ErrorCode
) -> None:
    """All acknowledgements of its partition are refused with it, but not the other partitions of the request."""
    world = World(partitions=2)
    for index in range(2):
        world.append(3, index)
    member = world.member()
    member.fetch(world.keys)
    response = member.acknowledge({world.keys[0]: batches, world.keys[1]: [(0, 2, [ACCEPT])]})
    assert errors(response) == {world.keys[0]: error, world.keys[1]: NONE}
    assert not world.states.states(world.state_key(0))


def test_only_the_member_that_holds_a_record_may_acknowledge_it() -> None:
    """Another member gets INVALID_RECORD_STATE."""
    world = World()
    world.append()
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    second.fetch(world.keys)
    response = second.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    assert errors(response) == {world.keys[0]: ErrorCode.INVALID_RECORD_STATE}
    assert rows(response)[world.keys[0]].error_message
    assert errors(first.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})) == {world.keys[0]: NONE}


# --- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_expires_and_wakes_who_waits() -> None:
    """The record is delivered again, by the clock that set the lock."""
    world = World()
    world.append()
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    second.fetch(world.keys)
    reply = second.start_fetch(max_wait_ms=LOCK_MS + 1)
    world.let_pass(LOCK_MS - 1)
    assert not reply.is_there
    world.let_pass(1)
    assert acquired(reply.message) == {world.keys[0]: [(0, 0, 2)]}
    late = first.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    assert errors(late) == {world.keys[0]: ErrorCode.INVALID_RECORD_STATE}


def test_a_lock_expires_even_if_that_cannot_be_written() -> None:
    """A member that is gone must not hold records because the share coordinator is."""
    world = World()
    world.append()
    world.member("first").fetch(world.keys)
    world.states.refusal = ErrorCode.NOT_COORDINATOR
    world.let_pass(LOCK_MS)
    world.states.refusal = None
    assert acquired(world.member("second").fetch(world.keys)) == {world.keys[0]: [(0, 0, 2)]}


def test_what_is_not_delivered_again_stays_locked_until_that_can_be_written() -> None:
    """An acknowledgement that comes late is refused until then, and not said to be of no use: after a restart the
    record would be delivered again."""
    world = World()
    world.configure(share_delivery_count_limit="2")
    world.append(2)
    member = world.member()
    member.fetch(world.keys)
    member.acknowledge({world.keys[0]: [(0, 0, [RELEASE])]})
    assert acquired(member.fetch()) == {world.keys[0]: [(0, 0, 2)]}
    world.states.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.let_pass(LOCK_MS)
    late = member.acknowledge({world.keys[0]: [(0, 0, [ACCEPT])]})
    assert errors(late) == {world.keys[0]: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert acquired(member.fetch()) == {world.keys[0]: [(1, 1, 2)]}
    world.states.refusal = None
    world.let_pass(1_000)
    assert errors(member.acknowledge({world.keys[0]: [(0, 1, [ACCEPT])]})) == {world.keys[0]: ErrorCode.NONE}
    share = world.states.shares[world.state_key()]
    assert share.offsets[0] == (ARCHIVED, 2)


def test_a_record_is_delivered_as_often_as_the_group_allows() -> None:
    """The record is then archived, and the records behind it are delivered all the same."""
    world = World()
    world.configure(share_delivery_count_limit="2")
    world.append()
    member = world.member()
    assert acquired(member.fetch(world.keys)) == {world.keys[0]: [(0, 0, 1)]}
    member.acknowledge({world.keys[0]: [(0, 0, [RELEASE])]})
    assert acquired(member.fetch()) == {world.keys[0]: [(0, 0, 2)]}
    world.let_pass(LOCK_MS)
    assert world.states.states(world.state_key()) == {0: (ARCHIVED, 2)}
    world.append()
    assert acquired(member.fetch()) == {world.keys[0]: [(1, 1, 1)]}


def test_a_renewed_lock_begins_again_and_nothing_is_fetched_with_it() -> None:
    """KIP-1222: the record is not delivered to another member before the new time is over."""
    world = World()
    world.append(2)
    first, second = world.member("first"), world.member("second")
    first.fetch(world.keys)
    world.let_pass(LOCK_MS - 1)
    world.append()
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    response = first.fetch(acknowledged={world.keys[0]: [(0, 0, [RENEW])]}, is_renew_ack=True, **nothing)
    assert acknowledge_errors(response) == {world.keys[0]: NONE} and not acquired(response)
    assert not world.states.write_count
    world.let_pass(LOCK_MS - 1)
    assert acquired(second.fetch(world.keys, max_records=1)) == {world.keys[0]: [(1, 1, 2)]}
    world.let_pass(1)
    assert (0, 0, 2) in acquired(second.fetch())[world.keys[0]]


@pytest.mark.parametrize("field", ["max_wait_ms", "min_bytes", "max_bytes", "max_records"])
def test_a_renewal_must_not_ask_for_records(field: str) -> None:
    """Else the lock could be over before the response arrives."""
    world = World()
    member = world.member()
    member.fetch(world.keys)
    nothing: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    assert member.fetch(is_renew_ack=True, **{**nothing, field: 1}).error_code == ErrorCode.INVALID_REQUEST
