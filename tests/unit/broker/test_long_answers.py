"""Answers that are long, because of the request or because of what is stored: what they cost, and whom they delay."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_request import ApiVersionsRequest
from oncelog.protocol.generated.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.message import Message
from tests.clients.administration import create
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import batch
from tests.support.requests.costs import CALLS_IN_20_MS, Cost, cost_of, turns_of

PARTITIONS = 5_000


@pytest.fixture(scope="module")
def broker() -> Iterator[VirtualBroker]:
    """One with a wide topic, an offset for each of its partitions in one group, and many groups."""
    broker = VirtualBroker("oncelog.flush.policy=memory", with_faults=False)
    create(broker, "wide", PARTITIONS)
    broker.ask(FindCoordinatorRequest(key="any"), 1)
    for start in range(0, PARTITIONS, 500):
        commit(broker, "group", range(start, start + 500))
    for number in range(3_000):
        commit(broker, f"group-{number}", range(1))
    yield broker


def commit(broker: VirtualBroker, group_id: str, indexes: range) -> None:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes]
    topics = [OffsetCommitRequestTopic(name="wide", partitions=partitions)]
    broker.ask(OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, topics=topics), 8)


def cost(broker: VirtualBroker, request: Message, version: int) -> Cost:
    return cost_of(broker, broker.frame(request, version))


REPEATED: dict[str, tuple[Message, Message, int]] = {
    "Metadata, a name": (
        MetadataRequest(topics=[MetadataRequestTopic(name="wide")]),
        MetadataRequest(topics=[MetadataRequestTopic(name="wide")] * 1_000),
        7,
    ),
    "OffsetFetch, a group": (
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=None)]),
        OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="group", topics=None)] * 1_000),
        8,
    ),
    "DescribeConfigs, a node": (
        DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)]
        ),
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=4, resource_name="0" * zeros + "1", configuration_keys=None)
                for zeros in range(500)
            ]
        ),
        4,
    ),
}


@pytest.mark.parametrize("name", REPEATED)
def test_what_a_request_repeats_is_answered_once(broker: VirtualBroker, name: str) -> None:
    once, repeated, version = REPEATED[name]
    assert cost(broker, repeated, version).answered_bytes == cost(broker, once, version).answered_bytes > 1_000


LONG: dict[str, tuple[Message, int]] = {
    "Metadata of a wide topic": (MetadataRequest(topics=None), 12),
    "OffsetFetch of many offsets": (REPEATED["OffsetFetch, a group"][0], 8),
    "OffsetFetch of many offsets before version 8": (OffsetFetchRequest(group_id="group", topics=None), 5),
    "ListGroups of many groups": (ListGroupsRequest(), 4),
    "DescribeConfigs of many groups": (
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=32, resource_name=f"{number}", configuration_keys=None)
                for number in range(1_000)
            ]
        ),
        4,
    ),
    "Metadata of topics that do not exist": (
        MetadataRequest(
            topics=[MetadataRequestTopic(name=f"none-{number}") for number in range(20_000)],
            allow_auto_topic_creation=False,
        ),
        12,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LONG)
def test_no_turn_of_a_long_answer_keeps_others_waiting_for_20_ms(broker: VirtualBroker, name: str) -> None:
    request, version = LONG[name]
    cost(broker, request, version)  # what is imported with a first request is not counted
    measured = cost(broker, request, version)
    assert measured.answered_bytes > 50_000
    assert measured.turn_count > 5
    assert measured.longest_turn_calls < CALLS_IN_20_MS


@pytest.mark.slow
@pytest.mark.parametrize("version", [pytest.param(11, marks=pytest.mark.slow), 17])
def test_no_turn_of_a_fetch_of_ten_thousand_partitions_keeps_others_waiting_for_20_ms(version: int) -> None:
    """Neither one that opens their logs, nor a session's first, nor the end of its wait for data in each of them."""
    broker = VirtualBroker("oncelog.flush.policy=memory", with_faults=False)
    create(broker, "warm", 1)
    create(broker, "wide", 10_000)
    measured = []
    for name, fields in (
        ("warm", {"session_epoch": -1}),
        ("wide", {"session_epoch": -1}),
        ("wide", {"session_epoch": 0, "max_wait_ms": 500}),
    ):
        topic = broker.broker.topics.get(name)
        assert topic is not None
        partitions = [FetchPartition(partition=index, partition_max_bytes=1) for index in range(topic.partition_count)]
        topics = [FetchTopic(topic=name, topic_id=topic.topic_id, partitions=partitions)]
        request = FetchRequest(min_bytes=1_000_000_000, topics=topics, **fields)
        measured.append(cost(broker, request, version))
    waiting = broker.send(request, version)
    turns = turns_of(broker, lambda: broker.let_pass(500))
    assert len(waiting.message.responses[0].partitions) == 10_000
    assert len(turns) > 5 and max(turns) < CALLS_IN_20_MS
    for each in measured[1:]:
        assert each.turn_count > 5
        assert each.longest_turn_calls < CALLS_IN_20_MS


def test_no_turn_makes_the_files_of_many_partitions() -> None:
    """Not even for a request that is small: one record for each of a hundred new partitions."""
    broker = VirtualBroker("oncelog.flush.policy=memory", with_faults=False)
    create(broker, "new", 100)
    partitions = [PartitionProduceData(index=index, records=batch(1)) for index in range(100)]
    request = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="new", partition_data=partitions)])
    reply = broker.start(request, 9)
    made = [_written(broker)]
    while not reply.is_there:
        broker.time.turn()
        made.append(_written(broker))
    assert [partition.error_code for partition in reply.message.responses[0].partition_responses] == [0] * 100
    assert made[-1] == 100 and made[0] <= 8
    assert max(later - earlier for earlier, later in pairwise(made)) <= 4


def _written(broker: VirtualBroker) -> int:
    return sum(log.log_end_offset > 0 for log in broker.broker.logs.logs if log.topic == "new")


def test_a_partition_without_files_is_asked_for_without_a_descriptor(broker: VirtualBroker) -> None:
    create(broker, "new", 1)
    latest = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="new", partitions=[latest])])
    broker.disk.lacks_descriptor = lambda path: True
    try:
        (found,) = broker.ask(request, 5).topics[0].partitions
    finally:
        broker.disk.lacks_descriptor = lambda path: False
    assert (found.error_code, found.offset) == (ErrorCode.NONE, 0)


def test_short_requests_are_answered_while_a_long_answer_is_in_the_making(broker: VirtualBroker) -> None:
    long = broker.start(MetadataRequest(topics=None), 12)
    short = broker.start(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3)
    sliced = broker.start(
        MetadataRequest(topics=[MetadataRequestTopic(name="none")], allow_auto_topic_creation=False), 12
    )
    assert short.is_there
    while not sliced.is_there:
        broker.time.turn()
    assert sliced.message.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not long.is_there
    broker.time.settle()
    assert len(long.message.topics[0].partitions) == PARTITIONS
