"""A broker that stops, however it does, comes back with the groups that the log tells of."""

import pytest

from oncelog.protocol.errors import ErrorCode
from tests.clients.group_members import SESSION_TIMEOUT_MS, Member, describe, fetch, form, started, state_of


def test_members_continue_where_they_were_with_a_new_session() -> None:
    broker = started()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    one.commit(7)
    before = describe(broker)
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    broker = broker.killed()
    one.broker = two.broker = broker
    assert describe(broker) == before
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert one.heartbeat() == two.heartbeat() == ErrorCode.NONE
    assert one.sync().message.assignment == b"one"
    assert one.commit(8) == ErrorCode.NONE
    assert fetch(broker)[0] == 8


def test_members_that_did_not_survive_are_out_after_their_session() -> None:
    broker = started()
    form(Member(broker))
    broker = broker.killed()
    broker.time.advance(SESSION_TIMEOUT_MS)
    assert state_of(broker) == "Empty"


def test_a_rebalance_that_the_stop_has_cut_short_is_simply_begun_again() -> None:
    broker = started()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one)
    two.join()
    one.join()  # a new generation that nobody has assigned yet
    one.learn()
    one.broker = two.broker = broker = broker.killed()
    assert state_of(broker) == "Stable"
    assert one.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert two.send_join().message.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    one.member_id = two.member_id = ""
    two.join()
    broker.time.advance(SESSION_TIMEOUT_MS)  # the first one's old member id is silent
    one.join()
    two.join()
    assert one.learn().generation_id == two.learn().generation_id


def test_no_member_gets_an_assignment_that_a_power_cut_can_undo() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    for seed in range(20):
        member.broker = broker.crashed(seed)
        assert member.heartbeat() == ErrorCode.NONE
        assert member.sync().message.assignment == b"client"


def test_an_empty_group_remembers_its_generation() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    generation_id = member.generation_id
    member.leave()
    member = Member(broker.killed())
    member.join()
    assert member.learn().generation_id > generation_id + 1


@pytest.mark.parametrize("is_leader", [True, False])
def test_after_a_restart_members_rejoin_under_the_ids_they_had(is_leader: bool) -> None:
    broker = started()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    one.broker = two.broker = broker = broker.killed()
    member = one if one.is_leader == is_leader else two
    reply = member.send_join()
    # A leader that joins wants to assign anew; a follower is told what it knew.
    assert reply.is_there != is_leader
    assert (state_of(broker) == "Stable") != is_leader
