"""A partition of `__consumer_offsets` is lost and gained in the middle of the life of groups; another serves meanwhile.

Whoever has the partition next goes on from the log: generations, assignments and offsets are there, every member has a
fresh session, and whoever waited for an answer was told to look for the coordinator again.
"""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.partitioning import coordinator_partition
from tests.clients.consumer_group_members import Consumer, described, settle
from tests.clients.group_members import GROUP, SESSION_TIMEOUT_MS, TOPIC, Member, commit, describe, fetch, form, started
from tests.clients.offset_producer import Producer
from tests.fakes.broker import VirtualBroker

E = ErrorCode
PARTITIONS = 2
LOST = coordinator_partition(GROUP, PARTITIONS)
OTHER = next(name for name in map(str, range(100)) if coordinator_partition(name, PARTITIONS) != LOST)
"""A group in the other partition."""


def two_partitions(*overrides: str) -> VirtualBroker:
    return started("offsets.topic.num.partitions=2", "group.initial.rebalance.delay.ms=0", *overrides)


def lose(broker: VirtualBroker) -> None:
    broker.broker.groups._runtime.lose(LOST)
    broker.time.settle()


def gain(broker: VirtualBroker, epoch: int) -> None:
    broker.broker.groups._runtime.gain(LOST, epoch)
    broker.time.settle()


def listed(broker: VirtualBroker) -> set[str]:
    answer = broker.ask(ListGroupsRequest(), 4)
    assert answer.error_code == E.NONE
    return {group.group_id for group in answer.groups}


def test_a_stable_group_continues_with_new_sessions_however_often_its_partition_moves() -> None:
    broker = two_partitions()
    one, two, other = Member(broker, "one"), Member(broker, "two"), Member(broker, group_id=OTHER)
    form(one, two)
    form(other)
    assert one.commit(7) is E.NONE
    before = describe(broker)
    for epoch in (1, 5):
        lose(broker)
        assert one.heartbeat() is one.commit(8) is E.NOT_COORDINATOR
        assert listed(broker) == {OTHER}
        for _ in range(3):  # longer than a session: nobody counts on members of a partition that is another's
            broker.let_pass(SESSION_TIMEOUT_MS - 1)
            assert other.heartbeat() is other.commit(3) is E.NONE
        gain(broker, epoch)
        assert describe(broker) == before
        assert fetch(broker)[0] == 7
        broker.let_pass(SESSION_TIMEOUT_MS - 1)
        assert one.heartbeat() is two.heartbeat() is other.heartbeat() is E.NONE
    assert one.sync().message.assignment == b"one"
    assert one.commit(8) is E.NONE
    broker.let_pass(SESSION_TIMEOUT_MS)
    assert describe(broker).group_state == "Empty", "the sessions of the last life end"
    assert fetch(broker)[0] == 8
    assert listed(broker) == {GROUP, OTHER}


def test_a_lost_partition_has_no_timers() -> None:
    broker = two_partitions()
    before = broker.time.timer_count
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one, two)
    two.send_join()  # a rebalance waits for the first
    Consumer(broker, group_id=next(n for n in map(str, range(100)) if coordinator_partition(n, 2) == LOST)).join()
    assert broker.time.timer_count > before
    lose(broker)
    assert broker.time.timer_count == before


def test_a_waiting_member_is_sent_to_look_up_the_coordinator_and_joins_the_next_life() -> None:
    broker = two_partitions()
    one, two, other = Member(broker, "one"), Member(broker, "two"), Member(broker, group_id=OTHER)
    form(one)
    waiting = two.join()
    other_waiting = Member(broker, "second", group_id=OTHER)
    form(other)
    other_join = other_waiting.join()
    assert not waiting.is_there and not other_join.is_there
    lose(broker)
    assert waiting.message.error_code == E.NOT_COORDINATOR
    assert two.send_join().message.error_code == E.NOT_COORDINATOR
    assert not other_join.is_there, "it waits for its own group"
    other.join()
    assert other_join.message.error_code == E.NONE
    gain(broker, 1)
    assert describe(broker).group_state == "Stable"
    two.member_id = ""  # its first id was never logged
    form(one, two)


def test_a_member_that_waits_for_its_assignment_gets_the_error_too() -> None:
    broker = two_partitions()
    one, two = Member(broker, "one"), Member(broker, "two")
    form(one)
    two.join()
    one.join()
    follower = next(member for member in (one, two) if member.learn() and not member.is_leader)
    waiting = follower.sync()
    assert not waiting.is_there
    lose(broker)
    assert waiting.message.error_code == E.NOT_COORDINATOR
    gain(broker, 1)
    assert one.heartbeat() is E.ILLEGAL_GENERATION, "that generation was never durable"


def test_a_commit_that_is_not_durable_when_the_partition_goes_is_answered_at_once_and_the_log_decides() -> None:
    broker = two_partitions()
    commit(broker, 1)
    data = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[data])])
    reply = broker.start(request, 8)
    assert not reply.is_there
    broker.broker.groups._runtime.lose(LOST)
    broker.time.settle()
    assert reply.message.topics[0].partitions[0].error_code == E.NOT_COORDINATOR
    gain(broker, 1)
    assert fetch(broker) == (5, E.NONE)


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_of_an_open_transaction_wait_over_the_move_and_its_end_reaches_the_next_life(committed: bool) -> None:
    broker = two_partitions()
    commit(broker, 1)
    producer, bystander = Producer(broker).init(), Producer(broker, "bystander").init()
    producer.commit_offset(5)
    lose(broker)
    producer.end(committed=committed)
    bystander.commit_offset(9, group_id=OTHER)
    bystander.end(committed=True)
    assert fetch(broker, group_id=OTHER) == (9, E.NONE)
    gain(broker, 1)
    assert fetch(broker, require_stable=True) == (-1, E.UNSTABLE_OFFSET_COMMIT), "the marker is yet to come"
    broker.let_pass(2_000)
    assert fetch(broker, require_stable=True) == (5 if committed else 1, E.NONE)
    assert fetch(broker.killed(), require_stable=True) == (5 if committed else 1, E.NONE)


def test_a_consumer_group_continues_where_it_was_and_another_rebalances_meanwhile() -> None:
    broker = two_partitions()
    one, two = Consumer(broker, "one"), Consumer(broker, "two")
    other = Consumer(broker, "other", group_id=OTHER)
    for member in (one, two, other):
        assert member.join() is E.NONE
    settle(broker, one, two)
    settle(broker, other)
    assert commit(broker, 7, member_id="one", generation_id=one.epoch, version=9) is E.NONE
    before = described(broker)
    for epoch in (1, 2):
        lose(broker)
        assert one.heartbeat() is E.NOT_COORDINATOR
        late = Consumer(broker, f"late-{epoch}", group_id=OTHER)
        assert late.join() is E.NONE
        settle(broker, other, late)
        assert late.leave() is E.NONE
        settle(broker, other)
        gain(broker, epoch)
        assert described(broker) == before
        assert one.heartbeat() is two.heartbeat() is E.NONE
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    assert fetch(broker)[0] == 7
    broker.let_pass(44_999)
    assert one.heartbeat() is E.NONE
    broker.let_pass(1)
    assert [member.member_id for member in described(broker).members] == ["one"], "a session of the last life has ended"
    settle(broker, one)
    assert one.partitions == [0, 1, 2, 3]


def test_a_topic_that_grows_while_the_partition_is_lost_is_noticed_by_the_next_life() -> None:
    broker = two_partitions()
    one = Consumer(broker, "one")
    one.join()
    settle(broker, one)
    lose(broker)
    broker.broker.topics.grow(TOPIC, 6)
    gain(broker, 1)
    settle(broker, one)
    assert one.partitions == [0, 1, 2, 3, 4, 5]


def test_without_its_partition_a_coordinator_of_groups_is_asked_for_in_vain_and_the_other_kind_serves() -> None:
    broker = two_partitions()
    lose(broker)
    broker.broker.groups._runtime.lose(1 - LOST)
    assert commit(broker, 1) is commit(broker, 1, group_id=OTHER) is E.NOT_COORDINATOR
    assert broker.ask(FindCoordinatorRequest(key="transactional", key_type=1), 1).error_code == E.NONE
    Producer(broker).init()
    assert listed(broker) == set()


@pytest.mark.parametrize("turns", range(10))
def test_at_whatever_step_of_a_rebalance_the_partition_goes_and_comes_the_group_gets_on(turns: int) -> None:
    broker = two_partitions()
    one, two = Member(broker, "one"), Member(broker, "two")
    runtime = broker.broker.groups._runtime

    def hand_over_in(turns_left: int) -> None:
        if turns_left:
            broker.time.call_soon(lambda: hand_over_in(turns_left - 1))
        else:
            runtime.lose(LOST)
            broker.time.call_later(50, lambda: runtime.gain(LOST, 1))

    form(one)
    hand_over_in(turns)
    two.send_join()
    one.sync()
    one.send_join()
    broker.let_pass(3 * SESSION_TIMEOUT_MS)
    one.member_id = two.member_id = ""
    one.joined = two.joined = None
    form(one, two)
    assert one.commit(1) is E.NONE
