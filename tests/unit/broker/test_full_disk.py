"""A full disk: writers get a retriable error, readers notice nothing, and with room all works again."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from oncelog.broker.admin.messages import AdminRequest
from oncelog.broker.admin.metrics_routes import MetricsRoutes
from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog.protocol.generated.alter_configs_request import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from oncelog.protocol.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.describe_log_dirs_request import DescribeLogDirsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig as IncrementalAlterableConfig,
)
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterConfigsResource as IncrementalAlterConfigsResource,
)
from oncelog.protocol.generated.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.protocol.generated.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from oncelog.protocol.message import Message
from tests.clients.producer import TOPIC, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker
from tests.fakes.logs import read_records

GROUP = "group"


def commit_offset(producer: Producer, offset: int = 5) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    answer = producer.broker.ask(OffsetCommitRequest(group_id=GROUP, topics=topics), 2)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def commit_offset_in_transaction(producer: Producer) -> ErrorCode:
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)
    request = TxnOffsetCommitRequest(
        group_id=GROUP,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        **producer.identity,
    )
    return ErrorCode(producer.broker.ask(request, 3).topics[0].partitions[0].error_code)


def add_offsets(producer: Producer) -> ErrorCode:
    request = AddOffsetsToTxnRequest(group_id=GROUP, **producer.identity)
    return ErrorCode(producer.broker.ask(request, 3).error_code)


def committed_offset(broker: VirtualBroker) -> int:
    topics = [OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
    answer = broker.ask(OffsetFetchRequest(group_id=GROUP, topics=topics), 5)
    return int(answer.topics[0].partitions[0].committed_offset)


def init_again(producer: Producer) -> ErrorCode:
    request = InitProducerIdRequest(transactional_id=producer.transactional_id, transaction_timeout_ms=10_000)
    answer = producer.broker.ask(request, 4)
    if answer.error_code == ErrorCode.NONE:
        producer.producer_id, producer.producer_epoch = answer.producer_id, answer.producer_epoch
    return ErrorCode(answer.error_code)


def create_topic(producer: Producer) -> ErrorCode:
    topic = CreatableTopic(name="another", num_partitions=1, replication_factor=1)
    return ErrorCode(producer.broker.ask(CreateTopicsRequest(topics=[topic]), 4).topics[0].error_code)


STEPS: dict[str, tuple[Callable[[Producer], ErrorCode], ErrorCode]] = {
    "InitProducerId": (init_again, ErrorCode.NOT_COORDINATOR),
    "AddPartitionsToTxn": (lambda producer: producer.add(0)[0], ErrorCode.NOT_COORDINATOR),
    "Produce": (lambda producer: producer.produce(0), ErrorCode.KAFKA_STORAGE_ERROR),
    "AddOffsetsToTxn": (add_offsets, ErrorCode.NOT_COORDINATOR),
    "OffsetCommit": (commit_offset, ErrorCode.NOT_COORDINATOR),
    "TxnOffsetCommit": (commit_offset_in_transaction, ErrorCode.NOT_COORDINATOR),
    "EndTxn": (lambda producer: producer.end(commit=True), ErrorCode.NOT_COORDINATOR),
    "CreateTopics": (create_topic, ErrorCode.KAFKA_STORAGE_ERROR),
}
"""The requests of a transaction, in order, and the error of a full disk for each. Clients retry each of them."""


def fill_disk(broker: VirtualBroker) -> None:
    broker.disk.capacity_bytes = broker.disk.used_bytes


def check_outcome(broker: VirtualBroker) -> None:
    assert log_of(broker).last_stable_offset == log_of(broker).high_watermark
    assert len(read_records(log_of(broker), 0, 10_000, FetchIsolation.TXN_COMMITTED).records) > 0
    assert committed_offset(broker) == 9


@pytest.mark.parametrize("full_at", STEPS)
def test_each_step_of_a_transaction_is_refused_retriably_and_works_once_there_is_room(full_at: str) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for name, (step, refusal) in STEPS.items():
        if name == full_at:
            fill_disk(broker)
            for _ in range(3):
                assert step(producer) is refusal
                assert refusal.retriable
                broker.time.advance(1_500)
            assert broker.disk_failures == []
            broker.disk.capacity_bytes = None
        error = step(producer)
        while error is ErrorCode.CONCURRENT_TRANSACTIONS:
            broker.time.advance(50)
            error = step(producer)
        assert error is ErrorCode.NONE, name
    broker.time.advance(2_000)
    check_outcome(broker)
    for again in (broker.killed(), broker.crashed(1)):
        again.time.advance(2_000)
        check_outcome(again)


def test_markers_that_find_no_room_are_written_once_there_is() -> None:
    """EndTxn is answered once PREPARE is durable; what follows waits for room as long as it takes."""
    for room_bytes in range(0, 600, 40):
        broker = broker_with_topic()
        producer = Producer(broker).init()
        assert producer.add(0) == [ErrorCode.NONE]
        assert producer.produce(0) is ErrorCode.NONE
        broker.disk.capacity_bytes = broker.disk.used_bytes + room_bytes
        answer = producer.end(commit=True)
        assert answer in (ErrorCode.NONE, ErrorCode.NOT_COORDINATOR)
        broker.time.advance(3_000)
        broker.disk.capacity_bytes = None
        broker.time.advance(3_000)
        if answer is not ErrorCode.NONE:
            assert producer.end(commit=True) is ErrorCode.NONE
            broker.time.advance(5_000)
        assert log_of(broker).last_stable_offset == 2
        assert init_again(producer) is ErrorCode.NONE
        assert broker.disk_failures == []


def delete_topic(broker: VirtualBroker) -> ErrorCode:
    answer = broker.ask(DeleteTopicsRequest(topic_names=[TOPIC]), 5)
    return ErrorCode(answer.responses[0].error_code)


def test_topic_that_cannot_be_deleted_for_lack_of_room_stays() -> None:
    broker = broker_with_topic()
    fill_disk(broker)
    assert delete_topic(broker) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.broker.topics.get(TOPIC) is not None
    broker.disk.capacity_bytes = None
    assert delete_topic(broker) is ErrorCode.NONE
    assert broker.broker.topics.get(TOPIC) is None
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 4)
    assert broker.broker.topics.get(TOPIC) is not None


CHANGES: dict[str, tuple[Message, int]] = {
    "AlterClientQuotas": (
        AlterClientQuotasRequest(
            entries=[EntryData(entity=[EntityData("user", "alice")], ops=[OpData("producer_byte_rate", 1_000.0)])]
        ),
        1,
    ),
    "AlterConfigs": (
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=2, resource_name=TOPIC, configs=[AlterableConfig(name="retention.ms", value="1000")]
                )
            ]
        ),
        2,
    ),
    "AlterUserScramCredentials": (
        AlterUserScramCredentialsRequest(
            upsertions=[
                ScramCredentialUpsertion(
                    name="alice", mechanism=1, iterations=8192, salt=b"salt", salted_password=b"password"
                )
            ]
        ),
        0,
    ),
    "IncrementalAlterConfigs": (
        IncrementalAlterConfigsRequest(
            resources=[
                IncrementalAlterConfigsResource(
                    resource_type=2,
                    resource_name=TOPIC,
                    configs=[IncrementalAlterableConfig(name="retention.ms", config_operation=0, value="2000")],
                )
            ]
        ),
        1,
    ),
    "UpdateFeatures": (
        UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)]
        ),
        1,
    ),
}
"""Requests that change the metadata log besides topics, each with its version."""


@pytest.mark.parametrize("name", CHANGES)
def test_change_of_the_cluster_is_refused_retriably_and_works_once_there_is_room(name: str) -> None:
    """A change that the metadata log has no room for is an error in the response, not the end of the connection."""
    broker = broker_with_topic()
    request, version = CHANGES[name]
    fill_disk(broker)
    for _ in range(2):
        assert errors_of(broker.ask(request, version)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    broker.disk.capacity_bytes = None
    assert errors_of(broker.ask(request, version)) == [ErrorCode.NONE]


def errors_of(response: Message) -> list[ErrorCode]:
    """The error of the response, or of each row of its only array."""
    if hasattr(response, "error_code"):
        return [ErrorCode(response.error_code)]
    (rows,) = (each for each in map(partial(getattr, response), response.__slots__) if isinstance(each, Sequence))
    return [ErrorCode(each.error_code) for each in rows]


@pytest.mark.parametrize("key_type", [0, 1])
def test_coordinator_is_not_available_while_there_is_no_room_for_its_topic(key_type: int) -> None:
    broker = VirtualBroker()
    fill_disk(broker)
    for _ in range(2):
        answer = broker.ask(FindCoordinatorRequest(key="id", key_type=key_type), 2)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    broker.disk.capacity_bytes = None
    assert broker.ask(FindCoordinatorRequest(key="id", key_type=key_type), 2).error_code == ErrorCode.NONE


def test_readers_notice_nothing() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0)
    producer.produce(0)
    producer.end()
    assert commit_offset(producer, 3) is ErrorCode.NONE
    broker.time.advance(1_000)
    before = bytes(read_records(log_of(broker), 0, 10_000, FetchIsolation.TXN_COMMITTED).records)
    fill_disk(broker)
    assert producer.add(0) == [ErrorCode.NOT_COORDINATOR]
    assert bytes(read_records(log_of(broker), 0, 10_000, FetchIsolation.TXN_COMMITTED).records) == before
    assert committed_offset(broker) == 3


@pytest.mark.parametrize("what", ["append", "sync"])
def test_failing_disk_stops_the_broker_and_the_next_start_has_all_that_was_acknowledged(what: str) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0)
    assert producer.produce(0) is ErrorCode.NONE
    broker.time.advance(10)
    error = OSError(errno.EIO, "Input/output error")
    if what == "append":
        broker.disk.append_error = lambda path: error
        reply = producer.start_produce(0, sequence=1)
    else:
        broker.disk.sync_error = error
        reply = producer.start_produce(1, version=12)  # it adds its partition: so it waits for the sync
    broker.time.settle()
    if what == "append":
        assert reply.message.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert not reply.is_there, "nothing may be acknowledged after a sync that failed"
    assert broker.disk_failures == [error]
    broker.disk.append_error = broker.disk.sync_error = None
    assert producer.produce(0, sequence=2) is ErrorCode.KAFKA_STORAGE_ERROR, "a second sync proves nothing"
    assert broker.broker.logs.close() is None
    for again in (broker.killed(), broker.crashed(2)):
        assert log_of(again).high_watermark >= 1
        assert not again.broker.logs.store.was_clean


def space_events(broker: VirtualBroker) -> list[str]:
    return [each["event"] for each in broker.news if each["event"].startswith("disk.")]


def readiness(broker: VirtualBroker) -> tuple[int, str]:
    request = AdminRequest("GET", ("readyz",))
    response = asyncio.run(MetricsRoutes(broker.broker, lambda: None).serve(request))  # type: ignore[arg-type]
    return response.status, str(response.body)


def usable_bytes(broker: VirtualBroker) -> int:
    return int(broker.ask(DescribeLogDirsRequest(topics=None), 4).results[0].usable_bytes)


def a_turn(broker: VirtualBroker) -> None:
    """One background turn, and what it has begun."""
    broker.broker.logs.step()
    broker.time.advance(100)


@pytest.mark.parametrize("full_at", STEPS)
def test_full_disk_is_one_line_when_it_begins_and_one_when_it_ends_whatever_is_refused(full_at: str) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for name, (step, refusal) in STEPS.items():  # noqa: B007  # the one at which it stops
        if name == full_at:
            break
        while step(producer) is ErrorCode.CONCURRENT_TRANSACTIONS:
            broker.time.advance(50)
    assert (space_events(broker), readiness(broker)[0]) == ([], 200)
    fill_disk(broker)
    for _ in range(20):
        assert step(producer) is refusal
        a_turn(broker)
    assert space_events(broker) == ["disk.full"]
    (line,) = (each for each in broker.warnings if each["event"] == "disk.full")
    assert "No space left on device" in line["error"] and "oncelog record delete" in line["message"]
    status, reason = readiness(broker)
    assert status == 503 and "the disk is full: " in reason and "No space left on device" in reason
    assert usable_bytes(broker) == 0
    broker.disk.capacity_bytes = None
    a_turn(broker)
    assert space_events(broker) == ["disk.full", "disk.has_space"]
    assert broker.news[-1]["refused_writes"] >= 20 and broker.news[-1]["duration_ms"] >= 2_000
    assert (readiness(broker)[0], usable_bytes(broker) > 0) == (200, True)
    fill_disk(broker)
    assert step(producer) is refusal
    a_turn(broker)
    assert space_events(broker) == ["disk.full", "disk.has_space", "disk.full"]


def test_full_disk_ends_only_with_room_for_what_was_refused_also_where_the_volume_does_not_show_it() -> None:
    """A quota: the volume has space, and every write is refused; and a large batch where small ones still fit."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    broker.disk.append_error = lambda path: OSError(errno.EDQUOT, "Disk quota exceeded", path)
    assert producer.add(0) == [ErrorCode.NOT_COORDINATOR]
    for _ in range(5):
        a_turn(broker)
    assert space_events(broker) == ["disk.full"]
    broker.disk.append_error = None
    a_turn(broker)
    assert space_events(broker) == ["disk.full", "disk.has_space"]
    before = set(broker.disk.files)
    for room_bytes in (0, 1_000, (1 << 16) - 1):
        broker.disk.capacity_bytes = broker.disk.used_bytes
        assert producer.add(0) == [ErrorCode.NOT_COORDINATOR]
        broker.disk.capacity_bytes = broker.disk.used_bytes + room_bytes
        a_turn(broker)
        assert space_events(broker)[-1] == "disk.full"
        assert set(broker.disk.files) <= before, "a trial leaves nothing"
    assert space_events(broker) == ["disk.full", "disk.has_space", "disk.full"]
