"""Members live as long as they are heard of."""

import pytest

from protocol.errors import ErrorCode
from tests.unit.group.members import SESSION_TIMEOUT_MS, Member, form, started, state_of


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
