"""A node that stands by, beside one that leads: what it answers, in virtual time."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from oncelog.broker.storage.shared.store import SharedSizes
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import alter_share_group_offsets_request as altering
from oncelog.protocol.generated import describe_quorum_request
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_cluster_request import DescribeClusterRequest
from oncelog.protocol.generated.describe_quorum_response import PartitionData
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.message import Message
from oncelog.protocol.topics import METADATA_TOPIC, SHARE_GROUP_STATE, TRANSACTION_STATE
from tests.fakes.database import Database
from tests.fakes.node import Surroundings, VirtualNode
from tests.fakes.virtual_time import VirtualTime


class Pair:
    """The first node leads, the other stands by."""

    def __init__(self) -> None:
        self.server = VirtualTime()
        around = Surroundings(Database(), self.server, self.server, (), 10_000, 0, Random(1), SharedSizes)
        self.leader, self.standby = VirtualNode(around, 1), VirtualNode(around, 2)
        self.leader.start(self.server.wall_ms())
        self.until(lambda: self.leader.serving is not None)
        self.standby.start(self.server.wall_ms())
        self.until(lambda: self.standby.serving is not None and bool(self._others))

    @property
    def _others(self) -> Any:
        assert self.leader.serving is not None
        return self.leader.serving.broker.nodes.others

    def pass_time(self, delay_ms: int) -> None:
        for _ in range(delay_ms):
            self.server.advance(1)
            for node in (self.leader, self.standby):
                node.pass_time(1)

    def until(self, has_happened: Callable[[], bool]) -> None:
        for _ in range(20_000):
            if has_happened():
                return
            self.pass_time(1)
        raise AssertionError("it has not happened in 20 s")

    def ask(self, node: VirtualNode, request: Message, version: int) -> Any:
        assert node.serving is not None
        arrival = node.take(node.serving.frame(request, version), request, version)
        self.until(lambda: arrival.is_there)
        assert arrival.reply is not None
        return arrival.reply.message


@pytest.fixture
def pair() -> Pair:
    return Pair()


def _quorum(pair: Pair, node: VirtualNode) -> PartitionData:
    """Describe the quorum of the metadata log, as this node answers it."""
    wanted = describe_quorum_request.PartitionData(partition_index=0)
    topic = describe_quorum_request.TopicData(topic_name=METADATA_TOPIC, partitions=[wanted])
    answer = pair.ask(node, describe_quorum_request.DescribeQuorumRequest(topics=[topic]), 2)
    assert answer.error_code == ErrorCode.NONE
    found: PartitionData = answer.topics[0].partitions[0]
    return found


def _create(pair: Pair, node: VirtualNode, name: str) -> None:
    wanted = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
    pair.ask(node, CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)


def test_the_quorum_is_the_leader_and_who_stands_by_is_an_observer(pair: Pair) -> None:
    """The standby's end of the log is what it had followed at its last sign of life, and the leader's once it has
    followed that.
    """
    _create(pair, pair.leader, "first")
    pair.pass_time(5_000)
    quorum = _quorum(pair, pair.leader)
    (voter,), (observer,) = quorum.current_voters, quorum.observers
    assert (quorum.leader_id, voter.replica_id, observer.replica_id) == (1, 1, 2)
    assert voter.leading_reason == "no broker has led before"
    assert voter.leading_since_timestamp < observer.last_fetch_timestamp <= voter.last_fetch_timestamp
    assert (voter.rounds_behind, observer.leading_since_timestamp, observer.leading_reason) == (-1, -1, "")
    assert voter.log_end_offset == observer.log_end_offset == quorum.high_watermark
    assert (observer.last_caught_up_timestamp, observer.rounds_behind) == (observer.last_fetch_timestamp, 0)
    before = quorum.high_watermark
    _create(pair, pair.leader, "second")
    quorum = _quorum(pair, pair.leader)
    (observer,) = quorum.observers
    assert (observer.log_end_offset, observer.last_caught_up_timestamp) == (before, -1)
    assert quorum.high_watermark > before
    pair.until(lambda: _quorum(pair, pair.leader).observers[0].log_end_offset == quorum.high_watermark)


def test_the_quorum_says_since_when_and_why_the_next_leader_leads(pair: Pair) -> None:
    """It says no more of a node that is gone once its row is over."""
    pair.pass_time(5_000)
    pair.leader.lose_the_machine()
    ended_ms = pair.server.wall_ms()
    pair.until(lambda: pair.standby.serving is not None and pair.standby.serving.epoch > 1)
    pair.pass_time(1_000)
    quorum = _quorum(pair, pair.standby)
    assert (quorum.leader_id, quorum.leader_epoch) == (2, 2)
    assert quorum.observers == []
    (voter,) = quorum.current_voters
    assert voter.leading_reason.startswith("node 1 has")
    assert ended_ms < voter.leading_since_timestamp < pair.server.wall_ms()


@pytest.mark.parametrize("version", [4, 11])
def test_a_fetch_from_a_standby_has_its_error_at_each_partition(pair: Pair, version: int) -> None:
    """A consumer looks there for a reason to ask for the new leader, and before version 7 there is no other place."""
    _create(pair, pair.leader, "topic")
    pair.until(lambda: bool(pair.ask(pair.standby, MetadataRequest(topics=None), 9).topics))
    partitions = [FetchPartition(partition=each, fetch_offset=0, partition_max_bytes=100) for each in (0, 1)]
    topics = [FetchTopic(topic="topic", partitions=partitions)]
    answer = pair.ask(pair.standby, FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), version)
    found = [(each.partition_index, each.error_code) for each in answer.responses[0].partitions]
    assert found == [(0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.NOT_LEADER_OR_FOLLOWER)]


def test_a_leader_has_the_topics_of_coordinators_again_after_their_deletion(pair: Pair) -> None:
    """It has them also where it looks at the nodes before the deletion is durable."""
    pair.until(lambda: _has_coordinators(pair))
    for delay_ms in range(0, 600, 50):
        pair.pass_time(delay_ms)
        pair.ask(pair.leader, DeleteTopicsRequest(topic_names=[TRANSACTION_STATE], timeout_ms=1_000), 5)
        pair.until(lambda: _has_coordinators(pair))


def test_a_node_that_has_ended_is_named_as_one_that_may_come_back(pair: Pair) -> None:
    """DescribeCluster has it for those that ask for fenced ones; Metadata for the clients alone that need it there."""
    assert pair.standby.process is not None
    pair.standby.process.stop()
    pair.until(lambda: any(each.is_gone for each in pair._others))
    metadata = pair.ask(pair.leader, MetadataRequest(topics=[]), 12)
    assert [each.node_id for each in metadata.brokers] == [1]
    alive, all_of_them = (
        pair.ask(pair.leader, DescribeClusterRequest(include_fenced_brokers=fenced), 2).brokers
        for fenced in (False, True)
    )
    assert [each.broker_id for each in alive] == [1]
    assert [(each.broker_id, each.is_fenced) for each in all_of_them] == [(1, False), (2, True)]


def test_a_leader_that_hands_over_says_so_before_its_clients_ask(pair: Pair) -> None:
    """No answer of the standby names it from then on."""
    assert pair.leader.process is not None
    assert pair.standby.serving is not None
    pair.leader.process.stop()
    pair.until(lambda: pair.leader.serving is None or pair.leader.serving.is_closing)
    assert pair.ask(pair.standby, MetadataRequest(topics=[]), 12).controller_id == 2


def test_a_share_group_begins_at_the_leader_and_continues_at_the_next_one(pair: Pair) -> None:
    """Its coordinator makes the topic of states: no node does ahead, and one that stands by sends members away."""
    _create(pair, pair.leader, "topic")
    pair.until(lambda: _has_topic(pair.standby, "topic"))
    request = ShareGroupHeartbeatRequest(group_id="group", member_id="m", subscribed_topic_names=["topic"])
    assert pair.ask(pair.standby, request, 1).error_code == ErrorCode.NOT_COORDINATOR
    assert not _has_topic(pair.leader, SHARE_GROUP_STATE)
    pair.until(lambda: pair.ask(pair.leader, _BEGIN_SHARING, 0).error_code == ErrorCode.NONE)
    assert _has_topic(pair.leader, SHARE_GROUP_STATE)
    assert _shared(pair, pair.leader) == [0, 0]
    pair.leader.lose_the_machine()
    pair.until(lambda: pair.standby.serving is not None and pair.standby.serving.epoch > 1)
    pair.until(lambda: _shared(pair, pair.standby) == [0, 0])
    assert pair.ask(pair.standby, request, 1).error_code == ErrorCode.NONE


_BEGIN_SHARING = altering.AlterShareGroupOffsetsRequest(
    group_id="group",
    topics=[
        altering.AlterShareGroupOffsetsRequestTopic(
            topic_name="topic",
            partitions=[
                altering.AlterShareGroupOffsetsRequestPartition(partition_index=each, start_offset=0) for each in (0, 1)
            ],
        )
    ],
)


def _shared(pair: Pair, node: VirtualNode) -> list[int]:
    """The start offset of each partition that the group reads."""
    wanted = DescribeShareGroupOffsetsRequestGroup(group_id="group", topics=None)
    answer = pair.ask(node, DescribeShareGroupOffsetsRequest(groups=[wanted]), 1)
    return [row.start_offset for topic in answer.groups[0].topics for row in topic.partitions]


def _has_topic(node: VirtualNode, name: str) -> bool:
    assert node.serving is not None
    return node.serving.broker.topics.get(name) is not None


def _has_coordinators(pair: Pair) -> bool:
    return _has_topic(pair.leader, TRANSACTION_STATE)
