"""What broke the broker once does so no more: each test names what bytes did, each file in `found/` is played again."""

from pathlib import Path

import pytest

from broker.metadata_log import METADATA_TOPIC
from protocol.errors import ErrorCode
from protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
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
