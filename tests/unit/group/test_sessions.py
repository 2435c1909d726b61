"""Members live as long as they are heard of."""

import pytest

from oncelog.broker.coordinator.group.classic.rebalance import NEW_MEMBER_TIMEOUT_MS
from oncelog.protocol.errors import ErrorCode
from tests.clients.group_members import SESSION_TIMEOUT_MS, Member, form, started, state_of


def test_a_silent_member_is_out_at_its_session_timeout_and_not_before() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert state_of(broker) == "Stable"
    broker.time.advance(1)
    assert state_of(broker) == "Empty"
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_heartbeats_keep_a_member_and_cost_no_timers() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    timer_count = broker.time.timer_count
    for _ in range(50):
        broker.time.advance(SESSION_TIMEOUT_MS // 2)
        assert member.heartbeat() == ErrorCode.NONE
    assert broker.time.timer_count <= timer_count


def test_a_commit_is_a_sign_of_life() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    for offset in range(5):
        broker.time.advance(SESSION_TIMEOUT_MS - 1)
        assert member.commit(offset) == ErrorCode.NONE
    assert state_of(broker) == "Stable"


def test_the_others_take_over_from_a_silent_member() -> None:
    broker = started()
    silent, alive = Member(broker, "silent"), Member(broker, "alive")
    form(silent, alive)
    for _ in range(3):
        broker.time.advance(SESSION_TIMEOUT_MS // 2)
        error = alive.heartbeat()
    assert error == ErrorCode.REBALANCE_IN_PROGRESS
    alive.join()
    assert [other.member_id for other in alive.learn().members] == [alive.member_id]


def test_a_member_is_not_out_while_its_join_is_held_but_when_it_is_silent_afterwards() -> None:
    broker = started()
    slow = Member(broker, "slow", session_timeout_ms=SESSION_TIMEOUT_MS * 3)
    waiting = Member(broker, "waiting")
    form(slow)
    waiting.join()
    broker.time.advance(SESSION_TIMEOUT_MS * 2)
    assert not waiting.joined.is_there  # type: ignore[union-attr]
    slow.join()
    assert waiting.learn().error_code == ErrorCode.NONE
    broker.time.advance(SESSION_TIMEOUT_MS)
    assert waiting.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_shorter_session_timeout_counts_from_the_next_join_on() -> None:
    broker = started()
    member = Member(broker, session_timeout_ms=SESSION_TIMEOUT_MS * 10)
    form(member)
    member.session_timeout_ms = SESSION_TIMEOUT_MS
    form(member)
    broker.time.advance(SESSION_TIMEOUT_MS)
    assert state_of(broker) == "Empty"


@pytest.mark.parametrize("jump_ms", [10**9, -(10**9)])
def test_the_wall_clock_has_no_say_in_sessions(jump_ms: int) -> None:
    broker = started()
    member = Member(broker)
    form(member)
    broker.time.wall_offset_ms += jump_ms
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert member.heartbeat() == ErrorCode.NONE
    broker.time.advance(SESSION_TIMEOUT_MS)
    assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_member_is_waited_for_no_longer_than_five_minutes() -> None:
    """It may have given up long ago and joined again under another id, which nobody can tell."""
    broker = started()
    hour_ms = 3_600_000
    settings = {"session_timeout_ms": hour_ms // 4, "rebalance_timeout_ms": hour_ms}
    slow = Member(broker, "slow", **settings)  # type: ignore[arg-type]
    form(slow)
    new = Member(broker, "new", join_version=3, **settings)  # type: ignore[arg-type]
    new.join()
    broker.time.advance(NEW_MEMBER_TIMEOUT_MS - 1)
    assert slow.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert not new.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(1)
    answer = new.learn()
    assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    slow.join()
    assert [member.member_id for member in slow.learn().members] == [slow.member_id]


def test_a_member_that_the_group_knows_is_waited_for_as_long_as_the_rebalance_may_take() -> None:
    broker = started()
    settings = {"session_timeout_ms": NEW_MEMBER_TIMEOUT_MS * 3, "rebalance_timeout_ms": NEW_MEMBER_TIMEOUT_MS * 3}
    one, two = (Member(broker, name, **settings) for name in ("one", "two"))  # type: ignore[arg-type]
    form(one, two)
    leader, other = (one, two) if one.is_leader else (two, one)
    leader.join()
    broker.time.advance(NEW_MEMBER_TIMEOUT_MS * 2)
    other.join()
    assert {leader.learn().generation_id, other.learn().generation_id} == {leader.generation_id}
