"""Topics are made, grown, cut and deleted for good: in use, across a kill, and whatever a power cut leaves."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from tests.clients.administration import (
    create,
    delete,
    delete_records,
    fetch,
    fetched_code,
    grow,
    partition_count,
    produce,
    start_produce,
)
from tests.fakes.broker import VirtualBroker

TOPIC = "topic"


def test_a_new_partition_takes_records_at_once_and_is_there_after_a_kill() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC, 2)
    assert produce(broker, TOPIC, partition=3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert grow(broker, TOPIC, 4) is ErrorCode.NONE
    assert produce(broker, TOPIC, partition=3) is ErrorCode.NONE
    survivor = broker.killed()
    assert partition_count(survivor, TOPIC) == 4
    assert produce(survivor, TOPIC, partition=3) is ErrorCode.NONE


def test_partitions_grow_all_or_none_whatever_a_power_cut_leaves() -> None:
    for seed in range(20):
        broker = VirtualBroker()
        create(broker, TOPIC, 2)
        broker.broker.topics.grow(TOPIC, 50)  # appended, not flushed: the loop has not turned
        assert partition_count(broker.crashed(seed), TOPIC) in (2, 50)


def test_a_growth_that_was_answered_outlives_every_power_cut() -> None:
    for seed in range(20):
        broker = VirtualBroker()
        create(broker, TOPIC, 2)
        assert grow(broker, TOPIC, 3) is ErrorCode.NONE
        assert partition_count(broker.crashed(seed), TOPIC) == 3


def test_a_fetch_that_waits_is_answered_when_the_topic_is_deleted() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    produce(broker, TOPIC)
    waiting = fetch(broker, TOPIC, 1, max_wait_ms=1_000_000)
    assert not waiting.is_there
    assert delete(broker, TOPIC) is ErrorCode.NONE
    assert waiting.is_there
    assert fetched_code(waiting) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_producer_gets_an_error_for_a_record_in_flight_when_its_topic_is_deleted() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    produce(broker, TOPIC)
    on_its_way = start_produce(broker, TOPIC)
    broker.start(DeleteTopicsRequest(topic_names=[TOPIC]), 5)
    broker.time.settle()
    assert on_its_way.is_there
    assert on_its_way.message.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert produce(broker, TOPIC) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_name_is_free_once_its_deletion_is_answered_and_the_new_topic_is_empty() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC, 3)
    produce(broker, TOPIC, b"old", partition=2)
    assert delete(broker, TOPIC) is ErrorCode.NONE
    assert create(broker, TOPIC, 3) is ErrorCode.NONE
    survivor = broker.killed()
    assert [name for name in survivor.disk.list_dir("") if name.startswith(TOPIC)] == []
    assert fetch(survivor, TOPIC, 0).message.responses[0].partitions[0].high_watermark == 0


def test_a_deletion_that_was_answered_outlives_every_power_cut() -> None:
    for seed in range(20):
        broker = VirtualBroker()
        create(broker, TOPIC)
        produce(broker, TOPIC)
        assert delete(broker, TOPIC) is ErrorCode.NONE
        survivor = broker.crashed(seed)
        assert produce(survivor, TOPIC) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert partition_count(survivor, TOPIC) == 0


@pytest.mark.parametrize(("version", "code"), [(2, "INVALID_REQUEST"), (5, "TOPIC_DELETION_DISABLED")])
def test_topics_stay_where_deletion_is_switched_off(version: int, code: str) -> None:
    broker = VirtualBroker("delete.topic.enable=false")
    create(broker, TOPIC)
    answer = broker.ask(DeleteTopicsRequest(topic_names=[TOPIC]), version).responses[0]
    assert ErrorCode(answer.error_code).name == code
    assert partition_count(broker, TOPIC) == 1


@pytest.mark.parametrize(
    ("switch", "allowed", "version", "made"),
    [("true", True, 4, 3), ("true", False, 4, 0), ("false", True, 4, 0), ("true", False, 3, 3)],
)
def test_a_topic_is_made_on_the_way_where_broker_and_client_allow_it(
    switch: str, allowed: bool, version: int, made: int
) -> None:
    broker = VirtualBroker(f"auto.create.topics.enable={switch}", "num.partitions=3")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=allowed)
    assert len(broker.ask(request, version).topics[0].partitions) == made
    assert partition_count(broker.killed(), TOPIC) == made


def test_what_was_only_tried_leaves_nothing() -> None:
    broker = VirtualBroker()
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    before = broker.disk.read_bytes("__cluster_metadata-0/00000000000000000000.log")
    answer = broker.ask(CreateTopicsRequest(topics=[topic], validate_only=True), 7).topics[0]
    assert answer.error_code == ErrorCode.NONE
    assert broker.disk.read_bytes("__cluster_metadata-0/00000000000000000000.log") == before


def test_deleted_records_are_gone_for_readers_at_once_and_after_every_power_cut() -> None:
    for seed in range(10):
        broker = VirtualBroker()
        create(broker, TOPIC)
        for number in range(5):
            produce(broker, TOPIC, b"%d" % number)
        assert delete_records(broker, TOPIC, 3) == (ErrorCode.NONE, 3)
        assert fetched_code(fetch(broker, TOPIC, 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
        survivor = broker.crashed(seed)
        assert fetched_code(fetch(survivor, TOPIC, 2)) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetch(survivor, TOPIC, 3).message.responses[0].partitions[0].log_start_offset == 3
        assert produce(survivor, TOPIC) is ErrorCode.NONE


def test_all_records_may_be_deleted_and_offsets_continue() -> None:
    broker = VirtualBroker()
    create(broker, TOPIC)
    for _ in range(3):
        produce(broker, TOPIC)
    assert delete_records(broker, TOPIC, -1) == (ErrorCode.NONE, 3)
    survivor = broker.killed()
    assert produce(survivor, TOPIC) is ErrorCode.NONE
    answer = fetch(survivor, TOPIC, 3).message.responses[0].partitions[0]
    assert (answer.log_start_offset, answer.high_watermark) == (3, 4)


def test_a_repetition_is_not_answered_with_what_a_kill_can_still_undo() -> None:
    """The first request may have lost its connection: the second must not answer that the topic is there already, or
    gone.
    """
    broker = VirtualBroker()
    creation = CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)])
    first, again = [broker.start(creation, 5) for _ in range(2)]
    assert not first.is_there
    assert not again.is_there
    broker.time.settle()
    assert first.message.topics[0].error_code == ErrorCode.NONE
    assert again.message.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    first, again = [broker.start(DeleteTopicsRequest(topic_names=[TOPIC]), 5) for _ in range(2)]
    assert not first.is_there
    assert not again.is_there
    broker.time.settle()
    assert first.message.responses[0].error_code == ErrorCode.NONE
    assert again.message.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
