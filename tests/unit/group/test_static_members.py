"""Members with a group.instance.id (KIP-345): a restart within the session disturbs nobody."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.clients.group_members import (
    GROUP,
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Member,
    describe,
    form,
    started,
    state_of,
)
from tests.fakes.broker import VirtualBroker


def formed(*overrides: str) -> tuple[VirtualBroker, Member, Member]:
    """A stable group of two static members: leader and follower."""
    broker = started(*overrides)
    one = Member(broker, "one", group_instance_id="instance-one")
    two = Member(broker, "two", group_instance_id="instance-two")
    form(one, two)
    return (broker, one, two) if one.is_leader else (broker, two, one)


def returning(member: Member, **changes: object) -> Member:
    """Returns the member's instance as a new process has it: it does not know its member id."""
    fresh = Member(member.broker, member.name, group_instance_id=member.group_instance_id)
    for name, value in changes.items():
        setattr(fresh, name, value)
    return fresh


def test_a_static_member_is_not_asked_to_come_back_with_an_id() -> None:
    member = Member(started(), group_instance_id="instance")
    assert member.send_join().message.error_code == ErrorCode.NONE
    assert member.learn().member_id.startswith("instance-")


def test_a_follower_that_restarts_gets_its_old_part_and_the_generation_stays() -> None:
    _, leader, follower = formed()
    fresh = returning(follower)
    fresh.join()
    answer = fresh.learn()
    assert (answer.generation_id, answer.leader) == (follower.generation_id, leader.member_id)
    assert fresh.member_id != follower.member_id
    assert fresh.sync().message.assignment == follower.name.encode()
    assert leader.heartbeat() == ErrorCode.NONE


def test_a_restarted_leader_sees_its_old_id_lead_so_that_it_does_not_assign_in_vain() -> None:
    broker, leader, _ = formed()
    fresh = returning(leader)
    fresh.join()
    answer = fresh.learn()
    assert (answer.leader, list(answer.members)) == (leader.member_id, [])
    assert fresh.sync().message.assignment == leader.name.encode()
    assert state_of(broker) == "Stable"


def test_a_return_that_cannot_be_logged_leaves_the_place_to_the_old_id() -> None:
    broker, _, follower = formed()
    broker.disk.capacity_bytes = broker.disk.used_bytes
    fresh = returning(follower)
    assert ErrorCode(fresh.send_join().message.error_code).retriable
    assert follower.heartbeat() == ErrorCode.NONE
    broker.disk.capacity_bytes = None
    fresh.join()
    assert fresh.learn().error_code == ErrorCode.NONE
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert state_of(broker) == "Stable"


def test_a_leader_that_supports_it_is_asked_to_skip_the_assignment() -> None:
    broker, leader, follower = formed()
    fresh = returning(leader, join_version=9)
    fresh.join()
    answer = fresh.learn()
    assert answer.skip_assignment
    assert answer.leader == fresh.member_id
    assert {other.member_id for other in answer.members} == {fresh.member_id, follower.member_id}
    assert state_of(broker) == "Stable"


def test_the_old_member_id_is_fenced() -> None:
    _, _, follower = formed()
    returning(follower).join()
    assert follower.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert follower.sync().message.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert follower.commit(1) == ErrorCode.FENCED_INSTANCE_ID
    assert follower.send_join().message.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert follower.leave() == ErrorCode.FENCED_INSTANCE_ID


def test_a_held_join_of_the_old_process_is_fenced_by_the_new_one() -> None:
    broker, _, follower = formed()
    Member(broker, "new").join()
    held = follower.send_join()
    assert not held.is_there
    fresh = returning(follower)
    fresh.join()
    assert held.message.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert not fresh.joined.is_there  # type: ignore[union-attr]


def test_a_return_in_the_middle_of_an_assignment_restarts_it() -> None:
    _, leader, follower = formed()
    leader.join()
    follower.join()
    leader.learn()
    follower.learn()
    held = follower.sync()
    fresh = returning(follower)
    fresh.join()
    assert held.message.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert leader.sync({}).message.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    assert fresh.learn().generation_id == leader.learn().generation_id


def test_a_return_that_changes_the_protocol_of_the_group_begins_a_new_generation() -> None:
    broker = started()
    both = (("range", b""), ("sticky", b""))
    one = Member(broker, "one", group_instance_id="one", protocols=both)
    two = Member(broker, "two", group_instance_id="two", protocols=both)
    form(one, two)
    follower, leader = (two, one) if one.is_leader else (one, two)
    fresh = returning(follower, protocols=(("sticky", b""),))
    fresh.join()
    assert not fresh.joined.is_there  # type: ignore[union-attr]
    leader.join()
    assert fresh.learn().protocol_name == "sticky"


def test_a_returned_member_survives_the_brokers_restart_under_its_new_id() -> None:
    broker, _, follower = formed()
    fresh = returning(follower)
    fresh.join()
    fresh.learn()
    fresh.broker = broker.killed()
    assert fresh.heartbeat() == ErrorCode.NONE
    assert fresh.sync().message.assignment == follower.name.encode()


def test_static_members_keep_their_places_through_a_rebalance_that_they_miss() -> None:
    broker, leader, follower = formed()
    for member in (leader, follower):
        member.session_timeout_ms = REBALANCE_TIMEOUT_MS * 3
    leader.join()
    follower.join()
    form_again(leader, follower)
    leader.join()
    broker.time.advance(REBALANCE_TIMEOUT_MS)
    assert {other.group_instance_id for other in leader.learn().members} == {"instance-one", "instance-two"}


def form_again(leader: Member, follower: Member) -> None:
    leader.learn()
    follower.learn()
    follower.sync()
    leader.sync({})


def test_a_group_of_absent_static_members_waits_until_their_sessions_end() -> None:
    broker, leader, _ = formed()
    assert leader.leave() == ErrorCode.NONE
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert state_of(broker) == "PreparingRebalance"
    broker.time.advance(1)
    assert state_of(broker) == "Empty"


def test_absent_static_members_get_no_assignment_without_a_leader_to_make_it() -> None:
    broker = started()
    one = Member(broker, "one", group_instance_id="one", session_timeout_ms=REBALANCE_TIMEOUT_MS * 3)
    two = Member(broker, "two", group_instance_id="two", session_timeout_ms=REBALANCE_TIMEOUT_MS * 3)
    form(one, two)
    one.leave()
    broker.time.advance(REBALANCE_TIMEOUT_MS * 2)  # longer than the group waits for its members
    assert state_of(broker) == "PreparingRebalance"
    two.join()
    generation_id = two.generation_id
    assert two.learn().generation_id == generation_id + 1


def test_a_returned_member_that_falls_silent_is_out_after_its_session() -> None:
    broker, _, follower = formed()
    returning(follower).join()
    broker.time.advance(SESSION_TIMEOUT_MS)
    broker.time.advance(SESSION_TIMEOUT_MS)
    assert state_of(broker) == "Empty"


def test_a_tool_removes_a_static_member_by_its_instance_id() -> None:
    broker, leader, follower = formed()
    identities = [
        MemberIdentity(group_instance_id=follower.group_instance_id),
        MemberIdentity(group_instance_id="no such instance"),
        MemberIdentity(member_id=leader.member_id, group_instance_id=follower.group_instance_id),
    ]
    answer = broker.ask(LeaveGroupRequest(group_id=GROUP, members=identities), 5)
    assert [(entry.member_id, entry.error_code) for entry in answer.members] == [
        ("", ErrorCode.NONE),
        ("", ErrorCode.UNKNOWN_MEMBER_ID),
        (leader.member_id, ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert [member.member_id for member in describe(broker).members] == [leader.member_id]


@pytest.mark.parametrize("taken_by", ["leader", "follower"])
def test_an_instance_id_has_one_member(taken_by: str) -> None:
    broker, leader, follower = formed()
    fresh = returning(leader if taken_by == "leader" else follower)
    fresh.join()
    assert len(describe(broker).members) == 2
