"""What broke the broker once does so no more: each test names what bytes did, each file in `found/` is played again."""

from pathlib import Path
from uuid import UUID

import pytest

from broker.metadata_log import METADATA_TOPIC
from protocol.errors import ErrorCode, ProtocolError
from protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from protocol.generated.heartbeat_request import HeartbeatRequest
from protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from protocol.records.batch import encode_batch
from protocol.records.record import Record
from tests.fakes.broker import VirtualBroker
from tests.fuzz.broker_in_memory import play_all
from tests.fuzz.search import load

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_it_no_longer_breaks_the_broker(path: Path) -> None:
    settings, actions = load(path)
    play_all(settings, actions)


def test_nobody_writes_to_the_metadata_log_or_reads_it_as_a_topic() -> None:
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


def test_a_text_that_only_some_versions_could_tell_again_is_no_request() -> None:
    """A plain string has room for 32,767 bytes; a group of a longer id would break ListGroups for older clients."""
    virtual = VirtualBroker()
    virtual.ask(HeartbeatRequest(group_id="x" * 32_767), 4)
    with pytest.raises(ProtocolError, match="32767"):
        virtual.ask(HeartbeatRequest(group_id="x" * 32_768), 4)
