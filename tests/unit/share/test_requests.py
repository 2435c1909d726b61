"""The requests to the share coordinator, on a whole broker, in bytes."""

from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_share_group_state_request import (
    DeleteShareGroupStateRequest,
    DeleteStateData,
)
from oncelog.protocol.generated.delete_share_group_state_request import PartitionData as DeletedPartition
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
    InitializeStateData,
)
from oncelog.protocol.generated.initialize_share_group_state_request import PartitionData as InitializedPartition
from oncelog.protocol.generated.read_share_group_state_request import PartitionData as ReadPartition
from oncelog.protocol.generated.read_share_group_state_request import ReadShareGroupStateRequest, ReadStateData
from oncelog.protocol.generated.read_share_group_state_summary_request import PartitionData as SummarizedPartition
from oncelog.protocol.generated.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryData,
)
from oncelog.protocol.generated.write_share_group_state_request import PartitionData as WrittenPartition
from oncelog.protocol.generated.write_share_group_state_request import StateBatch as WrittenBatch
from oncelog.protocol.generated.write_share_group_state_request import WriteShareGroupStateRequest, WriteStateData
from oncelog.protocol.topics import SHARE_GROUP_STATE
from tests.fakes.broker import VirtualBroker

E = ErrorCode
GROUP = "group"
FEW = "share.coordinator.state.topic.num.partitions=2"


def with_share_groups(broker: VirtualBroker, level: int = 1) -> VirtualBroker:
    broker.broker.metadata.state.features["share.version"] = level
    return broker


def create(broker: VirtualBroker, name: str = "topic") -> UUID:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1)]
    topic_id: UUID = broker.ask(CreateTopicsRequest(topics=topics), 7).topics[0].topic_id
    return topic_id


def find(broker: VirtualBroker, *keys: str, version: int = 6) -> Any:
    return broker.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=keys), version).coordinators


@pytest.fixture
def broker() -> VirtualBroker:
    return with_share_groups(VirtualBroker(FEW))


@pytest.fixture
def topic_id(broker: VirtualBroker) -> UUID:
    topic_id = create(broker)
    find(broker, str(SharePartitionKey(GROUP, topic_id, 0)))
    return topic_id


def initialize(broker: VirtualBroker, topic_id: UUID, *partitions: InitializedPartition) -> Any:
    topics = [InitializeStateData(topic_id=topic_id, partitions=partitions)]
    return broker.ask(InitializeShareGroupStateRequest(group_id=GROUP, topics=topics), 0).results


def read(broker: VirtualBroker, topic_id: UUID, partition: int = 0, leader_epoch: int = 0) -> Any:
    partitions = [ReadPartition(partition=partition, leader_epoch=leader_epoch)]
    topics = [ReadStateData(topic_id=topic_id, partitions=partitions)]
    return broker.ask(ReadShareGroupStateRequest(group_id=GROUP, topics=topics), 0).results[0].partitions[0]


def write(broker: VirtualBroker, topic_id: UUID, *partitions: WrittenPartition, version: int = 1) -> Any:
    topics = [WriteStateData(topic_id=topic_id, partitions=partitions)]
    return broker.ask(WriteShareGroupStateRequest(group_id=GROUP, topics=topics), version).results


def summarize(broker: VirtualBroker, topic_id: UUID, partition: int = 0, version: int = 1) -> Any:
    topics = [ReadStateSummaryData(topic_id=topic_id, partitions=[SummarizedPartition(partition=partition)])]
    request = ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics)
    return broker.ask(request, version).results[0].partitions[0]


def delete(broker: VirtualBroker, topic_id: UUID, *partitions: int) -> Any:
    topics = [
        DeleteStateData(topic_id=topic_id, partitions=[DeletedPartition(partition=index) for index in partitions])
    ]
    return broker.ask(DeleteShareGroupStateRequest(group_id=GROUP, topics=topics), 0).results


def codes(results: Any) -> list[tuple[int, ErrorCode]]:
    return [(row.partition, ErrorCode(row.error_code)) for topic in results for row in topic.partitions]


# --- finding it -------------------------------------------------------------------------------------------------------


def test_the_coordinator_of_a_share_partition_is_this_node_and_its_topic_is_made(broker: VirtualBroker) -> None:
    key = str(SharePartitionKey(GROUP, UUID(int=7), 0))
    found, refused = find(broker, key, "group")
    assert (found.key, found.error_code, found.node_id) == (key, E.NONE, 1)
    assert (refused.key, refused.error_code, refused.node_id, refused.error_message) == (
        "group",
        E.INVALID_REQUEST,
        -1,
        "",
    )
    topic = broker.broker.topics.get(SHARE_GROUP_STATE)
    assert topic is not None
    assert topic.is_internal
    assert topic.partition_count == 2


def test_where_no_key_is_one_and_before_version_6_no_topic_is_made(broker: VirtualBroker) -> None:
    key = str(SharePartitionKey(GROUP, UUID(int=7), 0))
    assert [each.error_code for each in find(broker, "group", "")] == [E.INVALID_REQUEST] * 2
    assert [each.error_code for each in find(broker, key, version=5)] == [E.INVALID_REQUEST]
    assert broker.broker.topics.get(SHARE_GROUP_STATE) is None


def test_the_topic_has_kafkas_settings_and_none_that_bounds_it(broker: VirtualBroker, topic_id: UUID) -> None:
    resource = DescribeConfigsResource(resource_type=2, resource_name=SHARE_GROUP_STATE, configuration_keys=None)
    entries = broker.ask(DescribeConfigsRequest(resources=[resource]), 4).results[0].configs
    assert {entry.name: entry.value for entry in entries if entry.config_source == 1} == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "min.insync.replicas": "1",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }


# --- each request -----------------------------------------------------------------------------------------------------


def test_what_is_written_is_read_and_summarized_until_it_is_deleted(broker: VirtualBroker, topic_id: UUID) -> None:
    begun = initialize(broker, topic_id, InitializedPartition(partition=0, state_epoch=3, start_offset=5))
    assert codes(begun) == [(0, E.NONE)]
    written = WrittenPartition(
        partition=0,
        state_epoch=3,
        leader_epoch=0,
        start_offset=7,
        delivery_complete_count=2,
        state_batches=[WrittenBatch(5, 9, 2, 1), WrittenBatch(10, 11, 0, 3)],
    )
    assert codes(write(broker, topic_id, written)) == [(0, E.NONE)]
    state = read(broker, topic_id, leader_epoch=4)
    assert (state.error_code, state.error_message, state.state_epoch, state.start_offset) == (E.NONE, None, 3, 7)
    assert [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count) for each in state.state_batches
    ] == [(7, 9, 2, 1), (10, 11, 0, 3)]
    summary = summarize(broker, topic_id)
    assert (summary.state_epoch, summary.leader_epoch, summary.start_offset) == (3, 4, 7)
    assert summary.delivery_complete_count == 2
    assert codes(delete(broker, topic_id, 0, 1)) == [(0, E.NONE), (1, E.NONE)]
    assert summarize(broker, topic_id).start_offset == -1


def test_a_write_of_version_0_makes_the_complete_deliveries_unknown(broker: VirtualBroker, topic_id: UUID) -> None:
    initialize(broker, topic_id, InitializedPartition(partition=0, start_offset=5))
    assert summarize(broker, topic_id).delivery_complete_count == 0
    write(broker, topic_id, WrittenPartition(partition=0, start_offset=6), version=0)
    assert summarize(broker, topic_id).delivery_complete_count == -1


def test_each_partition_has_its_own_error_with_kafkas_text(broker: VirtualBroker, topic_id: UUID) -> None:
    initialize(broker, topic_id, InitializedPartition(partition=0, state_epoch=3, start_offset=5))
    read(broker, topic_id, leader_epoch=4)
    asked = [
        WrittenPartition(partition=0, state_epoch=3, leader_epoch=3),
        WrittenPartition(partition=1),
        WrittenPartition(partition=-1),
    ]
    (topic,) = write(broker, topic_id, *asked)
    assert [(row.partition, row.error_code, row.error_message) for row in topic.partitions] == [
        (0, E.FENCED_LEADER_EPOCH, E.FENCED_LEADER_EPOCH.text),
        (1, E.INVALID_REQUEST, "Write operation on uninitialized share partition not allowed."),
        (-1, E.INVALID_REQUEST, "The partition id cannot be a negative number."),
    ]
    refused = read(broker, UUID(int=9))
    assert (refused.error_code, refused.start_offset, refused.state_epoch) == (E.INVALID_REQUEST, 0, 0)
    unknown = summarize(broker, UUID(int=9))
    assert (unknown.error_code, unknown.error_message) == (
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.UNKNOWN_TOPIC_OR_PARTITION.text,
    )
    assert (unknown.start_offset, unknown.delivery_complete_count) == (0, -1)


def test_a_partition_that_is_named_twice_is_done_twice_and_answered_once(broker: VirtualBroker, topic_id: UUID) -> None:
    twice = [InitializedPartition(partition=0, state_epoch=epoch, start_offset=5) for epoch in (3, 2)]
    assert codes(initialize(broker, topic_id, *twice)) == [(0, E.FENCED_STATE_EPOCH)]
    assert summarize(broker, topic_id).state_epoch == 3


def test_requests_for_nothing_get_an_empty_response(broker: VirtualBroker, topic_id: UUID) -> None:
    assert write(broker, topic_id) == []
    assert delete(broker, topic_id) == []
    assert initialize(broker, topic_id) == []
    one = InitializeStateData(topic_id=topic_id, partitions=[InitializedPartition(partition=0)])
    none = InitializeStateData(topic_id=UUID(int=9), partitions=[])
    assert broker.ask(InitializeShareGroupStateRequest(group_id="", topics=[one]), 0).results == []
    some = broker.ask(InitializeShareGroupStateRequest(group_id=GROUP, topics=[one, none]), 0).results
    assert [topic.topic_id for topic in some] == [topic_id]
    read_of_both = [
        ReadStateData(topic_id=topic_id, partitions=[ReadPartition(partition=0)]),
        ReadStateData(topic_id=UUID(int=9), partitions=[]),
    ]
    assert broker.ask(ReadShareGroupStateRequest(group_id=GROUP, topics=read_of_both), 0).results == []


@pytest.mark.parametrize("level", [0, 1])
def test_without_share_groups_and_without_the_topic_there_is_no_coordinator(level: int) -> None:
    broker = with_share_groups(VirtualBroker(FEW), level)
    topic_id = create(broker)
    if level == 0:
        find(broker, str(SharePartitionKey(GROUP, topic_id, 0)))
    row = initialize(broker, topic_id, InitializedPartition(partition=0))[0].partitions[0]
    text = "Unable to initialize share group state: This is not the correct coordinator."
    assert (row.error_code, row.error_message) == (E.NOT_COORDINATOR, text)
    row = summarize(broker, topic_id)
    text = "Unable to read share group state summary: This is not the correct coordinator."
    assert (row.error_code, row.error_message) == (E.NOT_COORDINATOR, text)


# --- within the broker ------------------------------------------------------------------------------------------------


def test_who_asks_within_the_broker_needs_no_topic_before(broker: VirtualBroker) -> None:
    key = SharePartitionKey(GROUP, create(broker), 0)
    asked = broker.broker.share_coordinator.initialize(key, 1, 5)
    broker.time.settle()
    assert asked.result() is None
    assert summarize(broker, key.topic_id).start_offset == 5


def test_a_broker_without_share_groups_makes_no_share_coordinator() -> None:
    broker = VirtualBroker()
    create(broker)
    broker.ask(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 1)
    assert broker.broker.shares_when_needed.known is None
    assert broker.killed().broker.shares_when_needed.known is None


def test_a_deleted_topic_takes_its_state_along(broker: VirtualBroker, topic_id: UUID) -> None:
    initialize(broker, topic_id, InitializedPartition(partition=0, start_offset=5))
    other_id = create(broker, "other")
    initialize(broker, other_id, InitializedPartition(partition=0, start_offset=6))
    broker.ask(DeleteTopicsRequest(topic_names=["topic"], timeout_ms=1_000), 1)
    again_id = create(broker)
    assert summarize(broker, topic_id).error_code == E.UNKNOWN_TOPIC_OR_PARTITION
    assert summarize(broker, again_id).start_offset == -1
    assert summarize(broker, other_id).start_offset == 6
    after = with_share_groups(broker.killed())
    assert stored(after) == {
        SharePartitionKey(GROUP, other_id, 0): ShareState(0, 0, 6, 0, ()),
    }


def stored(broker: VirtualBroker) -> dict[SharePartitionKey, ShareState]:
    coordinator = broker.broker.share_coordinator
    return {key: share.state for shard in coordinator.shards() for key, share in shard.all()}


def test_a_new_topic_of_state_inherits_nothing(broker: VirtualBroker, topic_id: UUID) -> None:
    initialize(broker, topic_id, InitializedPartition(partition=0, start_offset=5))
    broker.ask(DeleteTopicsRequest(topic_names=[SHARE_GROUP_STATE], timeout_ms=1_000), 1)
    row = initialize(broker, topic_id, InitializedPartition(partition=0))[0].partitions[0]
    assert row.error_code == E.NOT_COORDINATOR
    find(broker, str(SharePartitionKey(GROUP, topic_id, 0)))
    assert summarize(broker, topic_id).start_offset == -1


# --- what remains -----------------------------------------------------------------------------------------------------


def test_a_restart_finds_the_state_also_in_a_log_that_was_pruned() -> None:
    settings = (
        "share.coordinator.state.topic.num.partitions=1",
        "share.coordinator.state.topic.segment.bytes=1000",
        "share.coordinator.snapshot.update.records.per.snapshot=5",
    )
    broker = with_share_groups(VirtualBroker(*settings))
    topic_id = create(broker)
    coordinator = broker.broker.share_coordinator
    keys = [SharePartitionKey(GROUP, topic_id, partition) for partition in (0, 1)]
    for key in keys:
        coordinator.initialize(key, 1, 0)
    for offset in range(40):
        coordinator.write(keys[0], 1, 0, offset, 0, [StateBatch(offset, offset + 5, 2, 1)])
        broker.time.settle()
    broker.time.advance(300_000)
    coordinator.step()
    broker.time.settle()
    log = broker.broker.topics.partition(SHARE_GROUP_STATE, 0)
    assert log.log_start_offset == log.log_end_offset - 2
    coordinator.write(keys[1], 1, 0, -1, 0, [StateBatch(7, 8, 0, 1)])
    broker.time.settle()
    after = with_share_groups(broker.killed())
    assert after.broker.topics.partition(SHARE_GROUP_STATE, 0).log_start_offset == log.log_start_offset
    assert stored(after) == stored(broker)
    assert stored(after)[keys[1]].batches == (StateBatch(7, 8, 0, 1),)
