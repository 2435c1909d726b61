"""What is said of a topic that the brokers do not know: soon, by its name, and to whom it concerns."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client import (
    ConfigError,
    Consumer,
    ConsumerGroupMetadata,
    KafkaError,
    Producer,
    TopicPartition,
    UnknownTopic,
)
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from oncelog.protocol.generated.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from oncelog.protocol.generated.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.protocol.generated.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC, metadata
from tests.fakes.virtual_loop import Answers, ScriptedBroker, virtually
from tests.unit.client.test_interrupts import OF_A_READER

HOST = "host:1"
PLACE = TopicPartition(TOPIC, 0)
SOON_S = 1.5
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def without_topics(request: Any) -> MetadataResponse:
    """There is only the topic that every broker of these tests has."""
    usual = metadata(None)
    if request.topics is None:
        return usual
    topics = [MetadataResponseTopic(UNKNOWN, name=each.name) for each in request.topics if each.name != TOPIC]
    return MetadataResponse(brokers=usual.brokers, topics=topics or usual.topics)


def commit(request: Any) -> OffsetCommitResponse:
    topics = []
    for topic in request.topics:
        indexes = [each.partition_index for each in topic.partitions]
        codes = [0 if (topic.name, index) == PLACE else UNKNOWN for index in indexes]
        parts = [OffsetCommitResponsePartition(*each) for each in zip(indexes, codes, strict=True)]
        topics.append(OffsetCommitResponseTopic(name=topic.name, partitions=parts))
    return OffsetCommitResponse(topics=topics)


def commit_in_transaction(request: Any) -> TxnOffsetCommitResponse:
    topics = []
    for topic in commit(request).topics:
        parts = [TxnOffsetCommitResponsePartition(each.partition_index, each.error_code) for each in topic.partitions]
        topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=parts))
    return TxnOffsetCommitResponse(topics=topics)


READER: Answers = {**OF_A_READER, ApiKey.METADATA: without_topics, ApiKey.OFFSET_COMMIT: commit}
WRITER: Answers = {**OF_A_PRODUCER, ApiKey.METADATA: without_topics, ApiKey.TXN_OFFSET_COMMIT: commit_in_transaction}

MISTAKES = pytest.mark.parametrize(
    ("place", "kind", "said"),
    [
        (TopicPartition("topik", 0), UnknownTopic, r"topic 'topik' does not exist \(did you mean 'topic'\?\)"),
        (TopicPartition(TOPIC, 9), ConfigError, "topic 'topic' has no partition 9: the last is 0"),
    ],
    ids=["topic", "partition"],
)


def now_s() -> float:
    return asyncio.get_running_loop().time()


@MISTAKES
@virtually
async def test_offsets_of_what_does_not_exist_are_refused_soon_and_by_its_name(
    place: TopicPartition, kind: type[KafkaError], said: str
) -> None:
    heard: list[KafkaError | None] = []
    ScriptedBroker(READER)
    async with Consumer(bootstrap_servers=HOST, group_id="group", enable_auto_commit=False) as consumer:
        with pytest.raises(kind, match=said):
            await consumer.commit_sync({PLACE: 1, place: 3})
        assert now_s() < SOON_S
        consumer.commit_async({place: 3}, lambda _, error: heard.append(error))
    assert [type(each) for each in heard] == [kind]
    assert now_s() < 2 * SOON_S


@virtually
async def test_offsets_of_a_topic_that_the_coordinator_learns_of_later_are_committed() -> None:
    broker = ScriptedBroker(READER)
    broker.answers[ApiKey.OFFSET_COMMIT] = lambda request: commit(request) if now_s() < 0.5 else OffsetCommitResponse()
    async with Consumer(bootstrap_servers=HOST, group_id="group", enable_auto_commit=False) as consumer:
        await consumer.commit_sync({TopicPartition("new", 0): 3})
        assert 0.5 <= now_s() < 1


@MISTAKES
@virtually
async def test_a_transaction_fails_soon_with_offsets_of_what_does_not_exist(
    place: TopicPartition, kind: type[KafkaError], said: str
) -> None:
    """The coordinator has those of the other partitions: they must not be committed alone."""
    ScriptedBroker(WRITER)
    async with Producer(HOST, transactional_id="id") as producer:
        transaction = producer.transaction()
        with pytest.raises(kind, match=said):
            async with transaction:
                with pytest.raises(kind, match=said):
                    await transaction.send_offsets({PLACE: 1, place: 3}, group=ConsumerGroupMetadata("group"))
                assert now_s() < SOON_S
        assert transaction.state == "aborted"


def configs(value: str) -> Callable[[Any], DescribeConfigsResponse]:
    setting = DescribeConfigsResourceResult(name="auto.create.topics.enable", value=value)
    return lambda _: DescribeConfigsResponse(results=[DescribeConfigsResult(configs=[setting])])


@pytest.mark.parametrize("max_block_ms", [1_000, 60_000])
@virtually
async def test_a_record_for_a_topic_that_no_broker_will_create_is_refused_soon(max_block_ms: int) -> None:
    answers = {**OF_A_PRODUCER, ApiKey.METADATA: without_topics, ApiKey.DESCRIBE_CONFIGS: configs("false")}
    ScriptedBroker(answers)
    async with Producer(HOST, max_block_ms=max_block_ms) as producer:
        with pytest.raises(UnknownTopic, match=r"topic 'topik' does not exist \(did you mean 'topic'\?\)"):
            await producer.send("topik", b"value")
        assert now_s() < SOON_S


@pytest.mark.parametrize("describes", [True, False])
@virtually
async def test_a_topic_that_the_broker_creates_on_its_own_is_waited_for(describes: bool) -> None:
    """The client waits also if it may not know whether the broker creates it."""
    created = MetadataResponseTopic(name="new", partitions=[MetadataResponsePartition(partition_index=0, leader_id=0)])

    def slowly(request: Any) -> MetadataResponse:
        if now_s() < 3:
            return without_topics(request)
        return MetadataResponse(brokers=metadata(None).brokers, topics=[created])

    answers = {**OF_A_PRODUCER, ApiKey.METADATA: slowly}
    if describes:
        answers[ApiKey.DESCRIBE_CONFIGS] = configs("true")
    ScriptedBroker(answers)
    async with Producer(HOST) as producer:
        assert await producer.partitions_for("new") == 1
        assert 3 <= now_s() < 3 + SOON_S
