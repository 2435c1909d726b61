"""What broke the broker once does so no more: each test names what bytes did, each file in `found/` is played again."""

import tracemalloc
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from oncelog.protocol.errors import ErrorCode, ProtocolError
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog.protocol.records.batch import assemble_batch, encode_batch
from oncelog.protocol.records.compression import CODECS, compress
from oncelog.protocol.records.record import Record
from oncelog.protocol.topics import METADATA_TOPIC, TRANSACTION_STATE
from tests.fakes.broker import VirtualBroker
from tests.fuzz.broker_in_memory import play_all
from tests.fuzz.search import load

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_it_no_longer_breaks_the_broker(path: Path) -> None:
    settings, actions = load(path)
    play_all(settings, actions)


def test_no_client_writes_to_the_metadata_log_or_reads_it_as_a_topic() -> None:
    virtual = VirtualBroker()
    log = virtual.broker.metadata
    batch = encode_batch([Record(0, 1_700_000_000_000, None, b"x")])
    data = TopicProduceData(
        name=METADATA_TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))]
    )
    produced = virtual.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=0, topic_data=[data]), 8)
    assert produced.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = WritableTxnMarkerTopic(name=METADATA_TOPIC, partition_indexes=[0])
    marker = WritableTxnMarker(producer_id=1, producer_epoch=0, transaction_result=True, topics=[topic])
    written = virtual.ask(WriteTxnMarkersRequest(markers=[marker]), 1)
    assert written.markers[0].topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted = FetchTopic(topic=METADATA_TOPIC, partitions=[FetchPartition(partition=0)])
    fetched = virtual.ask(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[wanted]), 11)
    assert fetched.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert virtual.killed().broker.metadata.state.cluster_id == log.state.cluster_id


def test_no_client_makes_a_topic_of_the_metadata_logs_name_on_the_way_and_deletes_the_log_with_it() -> None:
    virtual = VirtualBroker("auto.create.topics.enable=true")
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=METADATA_TOPIC)])
    assert virtual.ask(asked, 4).topics[0].error_code == ErrorCode.INVALID_REQUEST
    deleted = virtual.ask(DeleteTopicsRequest(topic_names=[METADATA_TOPIC]), 4)
    assert deleted.responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert virtual.killed().broker.cluster_id == virtual.broker.cluster_id


def test_a_transaction_that_times_out_after_its_log_was_deleted_is_given_up() -> None:
    virtual = VirtualBroker("oncelog.compat=kafka")  # which lets clients delete it
    virtual.ask(FindCoordinatorRequest(key="t", key_type=1), 1)
    virtual.ask(CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)]), 4)
    identity = virtual.ask(InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1_000), 1)
    added = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="a", partitions=[0])],
    )
    answer = virtual.ask(added, 3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == ErrorCode.NONE
    virtual.ask(DeleteTopicsRequest(topic_names=[TRANSACTION_STATE]), 4)
    virtual.let_pass(120_000)  # nothing is raised
    assert virtual.broker.topics.get(TRANSACTION_STATE) is None


@pytest.mark.parametrize("topic", [MetadataRequestTopic(UUID(int=1), "topic"), MetadataRequestTopic(name=None)])
@pytest.mark.parametrize("version", [10, 11])
def test_versions_of_metadata_that_cannot_answer_an_id_refuse_it_in_kafkas_shape(
    topic: MetadataRequestTopic, version: int
) -> None:
    answer = VirtualBroker().ask(MetadataRequest(topics=[topic]), version)
    assert [(found.error_code, found.name) for found in answer.topics] == [
        (ErrorCode.INVALID_REQUEST, topic.name or "")
    ]
    assert (list(answer.brokers), answer.controller_id) == ([], -1)


@pytest.mark.parametrize("version", [2, 7])
def test_a_topics_name_of_32_kilobytes_is_refused_in_an_answer_that_every_version_can_carry(version: int) -> None:
    wanted = CreatableTopic(name="x" * 32_767, num_partitions=1, replication_factor=1)
    (answer,) = VirtualBroker().ask(CreateTopicsRequest(topics=[wanted]), version).topics
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_text_that_only_some_versions_could_encode_again_is_no_request() -> None:
    """A plain string has room for 32,767 bytes; a group of a longer id would break ListGroups for older clients."""
    virtual = VirtualBroker()
    virtual.ask(HeartbeatRequest(group_id="x" * 32_767), 4)
    with pytest.raises(ProtocolError, match="32767"):
        virtual.ask(HeartbeatRequest(group_id="x" * 32_768), 4)


@pytest.mark.parametrize("instance_id", [None, "x" * 32_767])
def test_a_member_whose_names_fill_a_string_to_the_brim_gets_an_id_that_fits_into_one(instance_id: str | None) -> None:
    virtual = VirtualBroker()
    virtual.ask(FindCoordinatorRequest(key="group"), 0)
    join = JoinGroupRequest(
        group_id="group",
        session_timeout_ms=10_000,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    reply = virtual.send(join, 5 if instance_id else 4, client_id="x" * 32_767)
    virtual.let_pass(10_000)
    assert 0 < len(reply.message.member_id) < 2_000


def test_an_offset_may_be_kept_for_longer_than_time_lasts() -> None:
    virtual = VirtualBroker()
    virtual.ask(FindCoordinatorRequest(key="group"), 0)
    virtual.ask(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 4)
    topic = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(committed_offset=7)])
    answer = virtual.ask(OffsetCommitRequest(group_id="group", retention_time_ms=(1 << 63) - 1, topics=[topic]), 2)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


NOW_MS = 1_700_000_000_000
CROWD = 600_000


def crowd(timestamp_ms: int) -> bytes:
    """Six hundred thousand records, each as short as can be, in some 500 bytes."""
    body = compress(CODECS["zstd"], bytes((12, 0, 0, 0, 1, 1, 0)) * CROWD)
    assert len(body) < 600
    return assemble_batch(
        body, attributes=4, record_count=CROWD, base_timestamp=timestamp_ms, max_timestamp=timestamp_ms
    )


def produced(virtual: VirtualBroker, batch: bytes) -> Any:
    virtual.ask(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 4)
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
    answer = virtual.ask(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=0, topic_data=[data]), 8)
    return answer.responses[0].partition_responses[0]


def peak_bytes(turn: Any) -> int:
    tracemalloc.start()
    try:
        turn()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_crowd_of_records_out_of_time_is_refused_without_naming_each_of_them() -> None:
    """It took the loop five seconds and the answer a hundred megabytes, in the default settings."""
    virtual = VirtualBroker()
    batch = crowd(NOW_MS * 4)
    assert peak_bytes(lambda: produced(virtual, batch)) < 30 << 20
    answer = produced(virtual, batch)
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert 0 < len(answer.record_errors) <= 1_000


def test_where_every_record_is_checked_a_batch_may_not_hold_more_than_can_be_checked_in_a_second() -> None:
    assert produced(VirtualBroker("oncelog.record.validation=full"), crowd(NOW_MS)).error_code == (
        ErrorCode.INVALID_RECORD
    )


def test_a_search_by_time_does_not_unpack_a_crowd_but_returns_where_it_begins() -> None:
    """It took gigabytes for one ListOffsets."""
    virtual = VirtualBroker()
    assert produced(virtual, encode_batch([Record(0, NOW_MS - 1, None, b"before")])).error_code == ErrorCode.NONE
    assert produced(virtual, crowd(NOW_MS)).error_code == ErrorCode.NONE
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=NOW_MS)])
    answers = []
    assert (
        peak_bytes(lambda: answers.append(virtual.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), 5))) < 30 << 20
    )
    (found,) = answers[0].topics[0].partitions
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.NONE, 1, NOW_MS)
