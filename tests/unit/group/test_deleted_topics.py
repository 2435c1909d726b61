"""What becomes of groups and offsets when topics are deleted: those that they read, and `__consumer_offsets` itself."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.clients.consumer_group_members import Consumer
from tests.clients.group_members import GROUP, TOPIC, Member, commit, fetch, form, started, state_of
from tests.clients.offset_producer import Producer
from tests.fakes.broker import VirtualBroker

OFFSETS = "__consumer_offsets"
DELETION = DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1000)


def delete(broker: VirtualBroker, name: str = TOPIC) -> ErrorCode:
    answer = broker.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=1000), 5)
    return ErrorCode(answer.responses[0].error_code)


def create(broker: VirtualBroker, name: str = TOPIC) -> ErrorCode:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    return ErrorCode(broker.ask(CreateTopicsRequest(topics=topics, timeout_ms=1000), 5).topics[0].error_code)


def kept(broker: VirtualBroker) -> list[str]:
    """Group ids that have an offset, visible or not. A clean-up ends those that have none any more."""
    shards = [life.shard for life in broker.broker.groups._runtime.shards()]
    groups = [(shard, group_id) for shard in shards for group_id in shard.group_ids()]
    return [each for shard, each in groups if shard.offsets(each) or shard.pending_partitions(each)]


class TestTopicOfOffsets:
    def test_its_offsets_are_gone_for_good_and_others_stay(self) -> None:
        broker = started(topics=(TOPIC, "other"))
        commit(broker, 1, group_id="one")
        commit(broker, 2, topic="other", group_id="two")
        Producer(broker).init().commit_offset(3, group_id="three")
        assert delete(broker) == ErrorCode.NONE
        for again in (broker, broker.killed()):
            assert kept(again) == ["two"]
            assert sorted(group.group_id for group in again.ask(ListGroupsRequest(), 5).groups) == [
                "one",
                "three",
                "two",
            ]
            assert fetch(again, topic="other", group_id="two")[0] == 2
            assert create(again) == ErrorCode.NONE
            assert fetch(again, group_id="one") == fetch(again, group_id="three") == (-1, ErrorCode.NONE)
            assert delete(again) == ErrorCode.NONE

    def test_a_transaction_that_ends_later_brings_none_back(self) -> None:
        broker = started()
        producer = Producer(broker).init()
        producer.commit_offset(3)
        delete(broker)
        create(broker)
        producer.end(committed=True)
        broker.time.advance(1_000)
        assert fetch(broker, require_stable=True) == (-1, ErrorCode.NONE)

    @pytest.mark.sampled(2)
    @pytest.mark.parametrize("settle", [False, True])
    def test_a_topic_that_a_power_cut_brings_back_has_its_offsets(self, settle: bool) -> None:
        came_back = []
        for seed in range(30):
            broker = started(partition_count=1)
            commit(broker, 5)
            if settle:
                broker.send(DELETION, 5)
            else:
                broker.start(DELETION, 5)
            after = broker.crashed(seed)
            came_back.append(after.broker.topics.get(TOPIC) is not None)
            assert fetch(after)[0] == (5 if came_back[-1] else -1)
        assert any(came_back) != settle

    def test_more_offsets_than_fit_into_one_batch_are_deleted_too(self) -> None:
        broker = started("offsets.topic.num.partitions=1")
        group_ids = [f"{number:03}" + "x" * 8_000 for number in range(200)]
        for group_id in group_ids:
            assert commit(broker, 1, group_id=group_id) == ErrorCode.NONE
        delete(broker)
        assert kept(broker) == kept(broker.killed()) == []


class TestOffsetsTopic:
    def test_nothing_of_a_group_is_left_neither_members_nor_clocks(self) -> None:
        broker = started()
        timer_count = broker.time.timer_count
        form(Member(broker))
        waiting = Member(broker, "late")
        waiting.join()
        Consumer(broker, group_id="modern").join()
        assert delete(broker, OFFSETS) == ErrorCode.NONE
        assert waiting.joined is not None
        assert waiting.joined.message.error_code == ErrorCode.NOT_COORDINATOR
        assert broker.time.timer_count == timer_count
        assert kept(broker) == []
        broker.time.advance(600_000)
        broker.broker.groups.step()
        assert kept(broker) == kept(broker.killed()) == []

    @pytest.mark.parametrize("is_restarted", [False, True])
    def test_groups_start_afresh_once_a_client_looks_up_their_coordinator(self, is_restarted: bool) -> None:
        broker = started()
        member = Member(broker)
        form(member)
        member.commit(5)
        delete(broker, OFFSETS)
        broker = member.broker = broker.killed() if is_restarted else broker
        assert member.heartbeat() == ErrorCode.NOT_COORDINATOR
        assert broker.ask(FindCoordinatorRequest(key=GROUP), 1).error_code == ErrorCode.NONE
        assert member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert fetch(broker)[0] == -1
        fresh = Member(broker)
        form(fresh)
        assert (fresh.generation_id, state_of(broker)) == (1, "Stable")
        assert fresh.commit(6) == ErrorCode.NONE
        assert fetch(broker.killed())[0] == 6

    def test_topics_come_and_go_although_consumer_groups_have_read_them(self) -> None:
        broker = started()
        consumer = Consumer(broker)
        consumer.join()
        assert delete(broker, OFFSETS) == ErrorCode.NONE
        assert delete(broker) == ErrorCode.NONE
        assert create(broker) == ErrorCode.NONE
        broker.ask(FindCoordinatorRequest(key=GROUP), 1)
        assert consumer.heartbeat() == ErrorCode.GROUP_ID_NOT_FOUND
        assert consumer.join() == ErrorCode.NONE
        assert consumer.partitions == [0]

    def test_a_commit_on_its_way_is_not_answered_as_if_it_had_been_kept(self) -> None:
        broker = started()
        data = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[data])])
        broker.ask(request, 8)
        on_its_way = broker.start(request, 8)
        broker.start(DeleteTopicsRequest(topic_names=[OFFSETS], timeout_ms=1000), 5)
        broker.time.settle()
        error = on_its_way.message.topics[0].partitions[0].error_code
        assert error in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)

    @pytest.mark.parametrize("committed", [True, False])
    def test_a_transaction_with_offsets_there_still_ends(self, committed: bool) -> None:
        broker = started()
        producer = Producer(broker).init()
        producer.commit_offset(5)
        delete(broker, OFFSETS)
        producer.end(committed=committed)
        broker.time.advance(5_000)
        producer.init()
        broker.ask(FindCoordinatorRequest(key=GROUP), 1)
        producer.commit_offset(6)
        producer.end(committed=True)
        broker.time.advance(5_000)
        assert fetch(broker, require_stable=True) == (6, ErrorCode.NONE)
