"""From the first join to a stable generation, and from there to the next."""

from oncelog.protocol.errors import ErrorCode
from tests.clients.group_members import (
    REBALANCE_TIMEOUT_MS,
    SESSION_TIMEOUT_MS,
    Member,
    describe,
    form,
    started,
    state_of,
)


def test_the_first_join_without_an_id_is_given_one_and_changes_nothing_yet() -> None:
    broker = started()
    answer = Member(broker, "first").send_join().message
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("first-")
    assert state_of(broker) == "Empty"


def test_clients_before_version_4_join_without_being_asked_for_an_id() -> None:
    member = Member(started(), join_version=3)
    member.send_join()
    assert member.learn().error_code == ErrorCode.NONE
    assert member.is_leader


def test_a_single_member_leads_and_gets_back_what_it_assigned_itself() -> None:
    broker = started()
    member = Member(broker)
    member.join()
    answer = member.learn()
    assert (answer.generation_id, answer.protocol_type, answer.protocol_name) == (1, "consumer", "range")
    assert [(other.member_id, other.metadata) for other in answer.members] == [(member.member_id, b"subscription")]
    assert state_of(broker) == "CompletingRebalance"
    assert member.sync({member.member_id: b"all"}).message.assignment == b"all"
    assert state_of(broker) == "Stable"


def test_only_the_leader_gets_the_list_of_members() -> None:
    broker = started()
    first, second, third = (Member(broker, name) for name in ("one", "two", "three"))
    form(first, second, third)
    assert sum(member.is_leader for member in (first, second, third)) == 1
    for member in (first, second, third):
        assert len(member.learn().members) == (3 if member.is_leader else 0)


def test_followers_wait_for_the_leader_and_each_gets_its_own_part() -> None:
    broker = started()
    leader, follower = Member(broker, "leader"), Member(broker, "follower")
    form(leader)
    follower.join()
    leader.join()
    leader.learn()
    follower.learn()
    waiting = follower.sync()
    assert not waiting.is_there
    leader.sync({leader.member_id: b"a", follower.member_id: b"b"})
    assert waiting.message.assignment == b"b"
    assert leader.sync().message.assignment == b"a"


def test_a_member_that_is_missing_in_the_assignment_gets_nothing() -> None:
    broker = started()
    leader, follower = Member(broker, "leader"), Member(broker, "follower")
    form(leader)
    follower.join()
    leader.join()
    leader.learn()
    follower.learn()
    waiting = follower.sync()
    leader.sync({leader.member_id: b"a"})
    assert (waiting.message.error_code, waiting.message.assignment) == (ErrorCode.NONE, b"")


def test_a_newcomer_makes_the_others_join_again_and_generations_rise() -> None:
    broker = started()
    old, new = Member(broker, "old"), Member(broker, "new")
    form(old)
    new.join()
    assert not new.joined.is_there  # type: ignore[union-attr]
    assert old.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    old.join()
    assert new.learn().generation_id == old.learn().generation_id == 2


def test_a_member_that_does_not_come_back_in_time_is_out() -> None:
    broker = started()
    gone, new = Member(broker, "gone", session_timeout_ms=REBALANCE_TIMEOUT_MS * 2), Member(broker, "new")
    form(gone)
    new.join()
    broker.time.advance(REBALANCE_TIMEOUT_MS - 1)
    assert not new.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(1)
    assert [other.member_id for other in new.learn().members] == [new.member_id]
    assert gone.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_frees_its_part_for_the_others() -> None:
    broker = started()
    leaver, stayer = Member(broker, "leaver"), Member(broker, "stayer")
    form(leaver, stayer)
    assert leaver.leave() == ErrorCode.NONE
    assert stayer.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    stayer.join()
    assert [other.member_id for other in stayer.learn().members] == [stayer.member_id]
    assert stayer.is_leader


def test_the_last_member_leaves_an_empty_group_of_a_new_generation() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    assert member.leave() == ErrorCode.NONE
    assert state_of(broker) == "Empty"
    again = Member(broker)
    again.join()
    assert again.learn().generation_id == 3


def test_an_id_that_was_given_out_holds_up_the_rebalance_for_a_session_at_most() -> None:
    broker = started()
    member = Member(broker, "quick")
    Member(broker, "lost", session_timeout_ms=SESSION_TIMEOUT_MS - 1).send_join()
    member.join()
    assert not member.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert member.learn().error_code == ErrorCode.NONE


def test_an_id_that_was_given_out_can_be_given_back() -> None:
    broker = started()
    member, lost = Member(broker, "quick"), Member(broker, "lost")
    lost.member_id = lost.send_join().message.member_id
    member.join()
    assert lost.leave() == ErrorCode.NONE
    assert member.learn().error_code == ErrorCode.NONE


def test_the_protocol_is_one_that_all_know_and_most_prefer() -> None:
    broker = started()
    members = [
        Member(broker, "a", protocols=(("only-a", b""), ("range", b"0"), ("sticky", b"1"))),
        Member(broker, "b", protocols=(("sticky", b"2"), ("range", b"3"))),
        Member(broker, "c", protocols=(("sticky", b"4"), ("range", b"5"))),
    ]
    form(*members)
    leader = next(member for member in members if member.is_leader)
    answer = leader.learn()
    assert answer.protocol_name == "sticky"
    assert {other.metadata for other in answer.members} == {b"1", b"2", b"4"}


def test_a_member_that_shares_no_protocol_is_refused() -> None:
    broker = started()
    form(Member(broker))
    answer = Member(broker, protocols=(("other", b""),)).send_join().message
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert state_of(broker) == "Stable"


def test_a_member_of_another_kind_is_refused() -> None:
    broker = started()
    form(Member(broker))
    answer = Member(broker, protocol_type="connect").send_join().message
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_first_member_must_name_a_kind_and_a_protocol() -> None:
    broker = started()
    for member in (Member(broker, protocol_type=""), Member(broker, protocols=())):
        assert member.send_join().message.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_lost_answer_to_a_join_is_given_again_without_a_new_generation() -> None:
    broker = started()
    leader, follower = Member(broker, "leader"), Member(broker, "follower")
    form(leader, follower)
    follower = follower if leader.is_leader else leader
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert follower.send_join().message.generation_id == follower.generation_id
    broker.time.advance(1)  # to ask again is a sign of life
    assert follower.heartbeat() != ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_rejoins_a_stable_group_starts_a_rebalance() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    member.join()
    assert member.learn().generation_id == 2


def test_a_changed_subscription_begins_a_new_generation() -> None:
    broker = started()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    follower, leader = (two, one) if one.is_leader else (one, two)
    follower.protocols = (("range", b"changed"),)
    follower.join()
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    leader.join()
    assert b"changed" in {other.metadata for other in leader.learn().members}


def test_a_join_during_the_sync_sends_the_waiting_members_back() -> None:
    broker = started()
    one, two, new = Member(broker, "one"), Member(broker, "two"), Member(broker, "new")
    form(one, two)
    leader, follower = (one, two) if one.is_leader else (two, one)
    leader.join()
    follower.join()
    leader.learn()
    follower.learn()
    waiting = follower.sync()
    new.join()
    assert waiting.message.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.sync({}).message.error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_thrown_out_after_the_rebalance_timeout() -> None:
    broker = started()
    lazy = Member(broker, "lazy", session_timeout_ms=REBALANCE_TIMEOUT_MS * 2)
    eager = Member(broker, "eager", session_timeout_ms=REBALANCE_TIMEOUT_MS * 2)
    form(lazy, eager)
    leader, follower = (lazy, eager) if lazy.is_leader else (eager, lazy)
    leader.join()
    follower.join()
    leader.learn()
    follower.learn()
    waiting = follower.sync()  # the leader never asks
    broker.time.advance(REBALANCE_TIMEOUT_MS)
    assert waiting.message.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert leader.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    follower.join()
    assert follower.learn().leader == follower.member_id


def test_a_member_that_sends_heartbeats_but_never_syncs_is_thrown_out_too() -> None:
    broker = started()
    one, two = Member(broker, "one", session_timeout_ms=50_000), Member(broker, "two", session_timeout_ms=50_000)
    form(one, two)
    leader, follower = (one, two) if one.is_leader else (two, one)
    leader.join()
    follower.join()
    leader.learn()
    follower.learn()
    leader.sync({})
    broker.time.advance(REBALANCE_TIMEOUT_MS // 2)
    assert leader.heartbeat() == follower.heartbeat() == ErrorCode.NONE
    broker.time.advance(REBALANCE_TIMEOUT_MS // 2)
    assert follower.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert leader.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_is_durable_too_late_counts_for_nothing() -> None:
    broker = started()
    one, two = Member(broker, "one", join_version=3), Member(broker, "two", join_version=3)
    one.join()
    one.learn()
    late = broker.start(one.sync_request({one.member_id: b"old"}), 3)
    two_joined = broker.start(two.join_request(), 3)
    one_joined = broker.start(one.join_request(), 3)  # a new generation, before the old one's assignment is durable
    assert two_joined.is_there
    broker.time.settle()
    assert late.message.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert (one_joined.message.generation_id, state_of(broker)) == (2, "CompletingRebalance")


def test_an_assignment_that_is_durable_while_a_newcomer_waits_counts_for_nothing() -> None:
    broker = started()
    one, two = Member(broker, "one", join_version=3), Member(broker, "two", join_version=3)
    one.join()
    one.learn()
    broker.start(one.sync_request({one.member_id: b"old"}), 3)
    broker.start(two.join_request(), 3)
    broker.time.settle()
    assert state_of(broker) == "PreparingRebalance"


def test_a_held_sync_outlives_the_session_timeout_since_its_connection_cannot_carry_heartbeats() -> None:
    broker = started()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    leader, follower = (one, two) if one.is_leader else (two, one)
    leader.join()
    follower.join()
    leader.learn()
    follower.learn()
    waiting = follower.sync()
    for _ in range(3):
        broker.time.advance(SESSION_TIMEOUT_MS - 1)
        assert leader.heartbeat() == ErrorCode.NONE
    leader.sync({follower.member_id: b"late"})
    assert waiting.message.assignment == b"late"
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert follower.heartbeat() == ErrorCode.NONE


def test_the_older_of_two_joins_of_one_member_does_not_wait_for_ever() -> None:
    broker = started()
    other, member = Member(broker, "other"), Member(broker, "member")
    form(other)
    older = member.join()
    newer = member.send_join()
    assert older.message.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    other.join()
    assert newer.message.error_code == ErrorCode.NONE


def test_generations_are_fenced() -> None:
    broker = started()
    member = Member(broker)
    form(member)
    stale = Member(broker, member_id=member.member_id, generation_id=member.generation_id - 1)
    assert stale.heartbeat() == ErrorCode.ILLEGAL_GENERATION
    assert stale.sync().message.error_code == ErrorCode.ILLEGAL_GENERATION
    assert stale.commit(1) == ErrorCode.ILLEGAL_GENERATION


def test_unknown_members_are_refused() -> None:
    broker = started()
    form(Member(broker))
    stranger = Member(broker, member_id="stranger", generation_id=1)
    assert stranger.send_join().message.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.sync().message.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.leave() == ErrorCode.UNKNOWN_MEMBER_ID
    assert stranger.commit(1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_session_timeouts_outside_the_limits_are_refused() -> None:
    broker = started("group.min.session.timeout.ms=6000", "group.max.session.timeout.ms=20000")
    for timeout_ms in (5_999, 20_001):
        answer = Member(broker, session_timeout_ms=timeout_ms).send_join().message
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_full_group_takes_no_new_member_but_keeps_its_own() -> None:
    broker = started("group.max.size=2")
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    late = Member(broker, "late")
    assert late.send_join().message.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert one.heartbeat() == two.heartbeat() == ErrorCode.NONE
    follower = two if one.is_leader else one
    assert follower.send_join().message.error_code == ErrorCode.NONE


def test_a_group_above_a_lowered_limit_keeps_the_members_that_rejoin_first() -> None:
    broker = started("group.max.size=3")
    members = [Member(broker, name) for name in ("one", "two", "three")]
    form(*members)
    broker = broker.killed("group.max.size=2")
    for member in members:
        member.broker = broker
    leader = next(member for member in members if member.is_leader)
    others = [member for member in members if member is not leader]
    leader.send_join()
    others[0].send_join()
    again = others[0].send_join()  # whoever waits already may ask again
    assert others[1].send_join().message.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert again.message.error_code == ErrorCode.NONE
    assert len(leader.learn().members) == 2
    assert others[1].heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_waits_for_a_session_timeout_in_a_rebalance() -> None:
    broker = started()
    old = Member(broker, join_version=0, session_timeout_ms=SESSION_TIMEOUT_MS)
    form(old)
    new = Member(broker, join_version=0, session_timeout_ms=SESSION_TIMEOUT_MS)
    new.join()
    broker.time.advance(SESSION_TIMEOUT_MS - 1)
    assert not new.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(1)
    assert new.learn().generation_id == 2


def test_an_empty_group_waits_for_more_members_as_long_as_they_keep_coming() -> None:
    broker = started("group.initial.rebalance.delay.ms=3000")
    one, two, three = (Member(broker, name) for name in ("one", "two", "three"))
    one.join()
    broker.time.advance(2_000)
    two.join()  # within the first three seconds: three more
    broker.time.advance(2_000)
    three.join()
    broker.time.advance(2_000)
    assert not one.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(3_000)
    assert {member.learn().generation_id for member in (one, two, three)} == {1}


def test_a_member_that_asks_again_does_not_make_an_empty_group_wait_for_more() -> None:
    broker = started("group.initial.rebalance.delay.ms=3000")
    member = Member(broker)
    member.join()
    broker.time.advance(2_000)
    member.send_join()  # the answer took the client too long
    broker.time.advance(999)
    assert not member.joined.is_there  # type: ignore[union-attr]
    broker.time.advance(1)
    assert member.learn().generation_id == 1


def test_an_empty_group_waits_for_more_members_no_longer_than_for_a_rebalance() -> None:
    broker = started("group.initial.rebalance.delay.ms=3000")
    members = [Member(broker, str(number), rebalance_timeout_ms=7_000) for number in range(7)]
    for member in members:
        assert not any(other.joined is not None and other.joined.is_there for other in members)
        member.join()
        broker.time.advance(1_000)
    assert {member.learn().generation_id for member in members} == {1}


def test_a_group_that_is_asked_about_shows_metadata_only_when_its_members_agree_on_a_protocol() -> None:
    broker = started()
    member = Member(broker, "client")
    form(member)
    stable = describe(broker)
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    shown = stable.members[0]
    assert (shown.client_id, shown.client_host, shown.member_assignment) == ("client", "/10.0.0.1", b"client")
    Member(broker, "new").join()
    rebalancing = describe(broker)
    assert (rebalancing.group_state, rebalancing.protocol_data) == ("PreparingRebalance", "")
    assert all(not shown.member_metadata for shown in rebalancing.members)
