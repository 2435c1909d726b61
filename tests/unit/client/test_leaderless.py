"""A partition without a leader stops what is done with that partition, and nothing else."""

import asyncio
from typing import Any

import pytest

from oncelog.client import Admin, Consumer, NewTopic, Producer, Record, RequestTimedOut, TopicPartition
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_response import CreateTopicsResponse
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from oncelog.protocol.generated.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.fakes.logs import batch
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC, metadata
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually
from tests.unit.client.test_interrupts import OF_A_READER

HOST = "host:1"
LED = TopicPartition(TOPIC, 0)
LEADERLESS = TopicPartition(TOPIC, 1)


def with_second(partition: MetadataResponsePartition) -> MetadataResponse:
    first = metadata(None)
    topic = MetadataResponseTopic(name=TOPIC, partitions=[*first.topics[0].partitions, partition])
    return MetadataResponse(brokers=first.brokers, topics=[topic])


def half_led(_: Any) -> MetadataResponse:
    return with_second(MetadataResponsePartition(ErrorCode.LEADER_NOT_AVAILABLE, partition_index=1, leader_id=-1))


def led(_: Any) -> MetadataResponse:
    return with_second(MetadataResponsePartition(partition_index=1, leader_id=0))


def produce(request: Any) -> ProduceResponse:
    parts = [part.index for topic in request.topic_data for part in topic.partition_data]
    written = [PartitionProduceResponse(index=index, base_offset=0) for index in parts]
    return ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=written)])


def list_offsets(request: Any) -> ListOffsetsResponse:
    asked = [part.partition_index for topic in request.topics for part in topic.partitions]
    found = [ListOffsetsPartitionResponse(partition_index=index, offset=0) for index in asked]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TOPIC, partitions=found)])


def fetch(request: FetchRequest) -> FetchResponse:
    """Three records in each partition."""
    parts = [
        PartitionData(partition_index=part.partition, high_watermark=3, last_stable_offset=3, records=batch(3))
        for topic in request.topics
        for part in topic.partitions
        if part.fetch_offset == 0
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=parts)] if parts else [])


def offset_fetch(_: Any) -> OffsetFetchResponse:
    """Offset 0 is committed in both partitions."""
    found = [OffsetFetchResponsePartitions(partition_index=index, committed_offset=0) for index in range(2)]
    topics = [OffsetFetchResponseTopics(name=TOPIC, partitions=found)]
    return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="group", topics=topics)])


def broker_of_a_producer() -> ScriptedBroker:
    return ScriptedBroker({**OF_A_PRODUCER, ApiKey.METADATA: half_led, ApiKey.PRODUCE: produce})


def broker_of_a_reader() -> ScriptedBroker:
    answers = {ApiKey.METADATA: half_led, ApiKey.LIST_OFFSETS: list_offsets, ApiKey.OFFSET_FETCH: offset_fetch}
    return ScriptedBroker({**OF_A_READER, **answers})


def now_s() -> float:
    return asyncio.get_running_loop().time()


@virtually
async def test_records_for_a_partition_are_sent_while_another_has_no_leader() -> None:
    broker_of_a_producer()
    async with Producer(HOST) as producer:
        producer._cluster.metadata.topics.clear()
        assert (await producer.send(TOPIC, b"value", partition=0)).partition == 0
        assert now_s() < 1


@virtually
async def test_records_without_a_key_go_to_partitions_that_have_leaders() -> None:
    broker_of_a_producer()
    for _ in range(20):
        async with Producer(HOST, batch_size=200) as producer:
            sent = await asyncio.gather(*(producer.send(TOPIC, bytes(100)) for _ in range(5)))
            assert {each.partition for each in sent} == {0}
    assert now_s() < 1


@virtually
async def test_a_record_for_a_partition_without_a_leader_is_sent_when_it_has_one() -> None:
    broker = broker_of_a_producer()
    async with Producer(HOST) as producer:
        delivery = await producer.send_soon(TOPIC, b"value", partition=1)
        await pass_time(10)
        assert not delivery.done()
        broker.answers[ApiKey.METADATA] = led
        assert (await delivery).partition == 1
        assert now_s() < 10.5


@virtually
async def test_records_without_a_key_use_a_partition_again_that_has_got_a_leader() -> None:
    broker = broker_of_a_producer()
    async with Producer(HOST, batch_size=200) as producer:
        await producer.send(TOPIC, b"value")
        broker.answers[ApiKey.METADATA] = led
        producer._cluster.metadata.forget_leaders([TOPIC])
        sent = await asyncio.gather(*(producer.send(TOPIC, bytes(100)) for _ in range(5)))
        assert {each.partition for each in sent} == {0, 1}


@pytest.mark.parametrize("in_group", [False, True])
@virtually
async def test_a_partition_is_read_while_another_has_no_leader(in_group: bool) -> None:
    broker_of_a_reader()
    async with Consumer(
        *([TOPIC] if in_group else []),
        bootstrap_servers=HOST,
        group_id="group" if in_group else None,
        auto_offset_reset="earliest",
    ) as consumer:
        consumer._cluster.metadata.topics.clear()
        if not in_group:
            consumer.assign([LED])
        records: list[Record] = []
        while not records:
            records = await consumer.poll(1_000)
        assert {each.topic_partition for each in records} == {LED}
        assert now_s() < 1
        assert consumer.assignment() == ([LED, LEADERLESS] if in_group else [LED])


@pytest.mark.parametrize("in_group", [False, True])
@virtually
async def test_where_a_partition_without_a_leader_begins_is_looked_up_when_it_has_one(in_group: bool) -> None:
    """The other partitions are read until then."""
    broker = broker_of_a_reader()
    broker.answers[ApiKey.FETCH] = fetch
    broker.delays_s[ApiKey.FETCH] = 0.1
    broker.answers[ApiKey.OFFSET_FETCH] = lambda _: OffsetFetchResponse(groups=[OffsetFetchResponseGroup("group")])
    group_id = "group" if in_group else None
    async with Consumer(TOPIC, bootstrap_servers=HOST, group_id=group_id, auto_offset_reset="earliest") as consumer:
        records: list[Record] = []
        while not records:
            records = await consumer.poll(1_000)
        assert {each.topic_partition for each in records} == {LED}
        assert now_s() < 1
        assert await consumer.poll(5_000) == []
        polling = asyncio.ensure_future(consumer.poll(60_000))
        await pass_time(5)
        broker.answers[ApiKey.METADATA] = led
        assert {each.topic_partition for each in await polling} == {LEADERLESS}
        assert now_s() < 11


@virtually
async def test_offsets_are_those_of_the_leaders_and_missing_ones_are_waited_for() -> None:
    broker = broker_of_a_reader()
    async with Consumer(bootstrap_servers=HOST, default_api_timeout_ms=5_000) as consumer:
        consumer._cluster.metadata.topics.clear()
        assert await consumer.end_offsets([LED]) == {LED: 0}
        assert now_s() < 1
        with pytest.raises(RequestTimedOut, match="topic-1"):
            await consumer.end_offsets([LED, LEADERLESS])
        assert 4.9 < now_s() < 6
        looking = asyncio.ensure_future(consumer.end_offsets([LED, LEADERLESS]))
        await pass_time(2)
        broker.answers[ApiKey.METADATA] = led
        assert await looking == {LED: 0, LEADERLESS: 0}


@virtually
async def test_a_topic_is_created_when_all_its_partitions_have_leaders() -> None:
    broker = ScriptedBroker({ApiKey.METADATA: half_led, ApiKey.CREATE_TOPICS: lambda _: CreateTopicsResponse()})
    async with Admin(HOST) as admin:
        creating = asyncio.ensure_future(admin.create_topics(NewTopic(TOPIC, 2)))
        await pass_time(5)
        assert not creating.done()
        broker.answers[ApiKey.METADATA] = led
        await creating
        assert now_s() < 5.5


def test_a_refresh_whose_loop_was_closed_meanwhile_wakes_no_waiter() -> None:
    woken = []

    async def begin() -> Any:
        cluster = Cluster(HOST, client_id="left")
        refreshing = cluster._refresh_quietly((TOPIC,))
        cluster._on_refreshed[lambda: woken.append(TOPIC)] = None
        refreshing.send(None)  # as far as its pause
        return refreshing

    asyncio.run(begin()).close()  # as the collector does with a task that is left
    assert not woken
