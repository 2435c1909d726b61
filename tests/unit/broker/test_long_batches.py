"""Batches that become large once they are opened keep no other request waiting."""

from typing import Any

import pytest

from oncelog.broker.log.partition_log import FetchIsolation
from oncelog.protocol.checksum import crc32c
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import CRC_AT, CRC_COVERS_FROM, encode_batch, read_header
from oncelog.protocol.records.compression import CODECS
from oncelog.protocol.records.record import Record
from tests.fakes.broker import VirtualBroker
from tests.support.requests.costs import CALLS_IN_20_MS, INFLATED_BYTES_IN_20_MS, cost_of

_TOPICS = {
    "compacted": {"cleanup.policy": "compact"},
    "zipped": {"compression.type": "gzip"},
    "recompressed": {"compression.type": "snappy", "max.message.bytes": "16000000"},
    "uncompressed": {"compression.type": "uncompressed"},
}
TOPICS = pytest.mark.parametrize("topic", _TOPICS)
_NOW_MS = 1_700_000_000_000


@pytest.fixture(params=["short", "full"])
def broker(request: pytest.FixtureRequest) -> VirtualBroker:
    running = VirtualBroker(f"oncelog.record.validation={request.param}")
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in _TOPICS.items()
    ]
    running.ask(CreateTopicsRequest(topics=topics), 4)
    return running


def _request(topic: str, *batches: bytes, acks: int = -1) -> ProduceRequest:
    rows = [
        TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))])
        for batch in batches
    ]
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=rows)


def _errors(response: Any) -> list[ErrorCode]:
    return [ErrorCode(row.partition_responses[0].error_code) for row in response.responses]


def _inflating(size_bytes: int, codec: str = "zstd") -> bytes:
    return encode_batch([Record(0, _NOW_MS, b"key", bytes(size_bytes))], compression=codec)


def _many(count: int, codec: str | None = "zstd", *, key: bytes | None = b"k", **options: Any) -> bytes:
    records = [Record(0, _NOW_MS, key, b"") for _ in range(count)]
    return encode_batch(records, compression=codec or "none", **options)


@pytest.mark.sampled(7)
@TOPICS
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_inflates_a_thousandfold_is_opened_beside_the_loop(
    broker: VirtualBroker, topic: str, codec: str
) -> None:
    if _TOPICS[topic].get("compression.type") == codec:
        codec = "zstd"
    frame = broker.frame(_request(topic, *[_inflating(10_000_000, codec)] * 3), 8)
    cost = cost_of(broker, frame)
    is_too_large = topic == "uncompressed"
    assert broker.broker.topics.partition(topic, 0).log_end_offset == (0 if is_too_large else 3)
    assert cost.inflated_bytes < INFLATED_BYTES_IN_20_MS
    assert cost.longest_turn_calls < CALLS_IN_20_MS


@pytest.mark.sampled(3)
@pytest.mark.interpreted
@pytest.mark.parametrize("codec", [None, "zstd"])
def test_the_records_of_a_large_batch_are_checked_in_slices(broker: VirtualBroker, codec: str | None) -> None:
    topic = "compacted"
    frame = broker.frame(_request(topic, *[_many(20_000, codec)] * 3), 8)
    cost = cost_of(broker, frame)
    assert cost.calls > 3 * CALLS_IN_20_MS
    assert cost.longest_turn_calls < CALLS_IN_20_MS
    assert broker.broker.topics.partition(topic, 0).log_end_offset == 60_000


@pytest.mark.sampled(5)
@TOPICS
@pytest.mark.parametrize("codec", [None, "gzip", "zstd"])
def test_what_was_opened_is_appended_as_a_small_batch_is(broker: VirtualBroker, topic: str, codec: str | None) -> None:
    options = {"producer_id": 7, "producer_epoch": 0}
    for base, count in ((0, 3), (3, 5_000)):
        request = _request(topic, _many(count, codec, base_sequence=base, **options))
        assert _errors(broker.ask(request, 8)) == [ErrorCode.NONE]
        assert _errors(broker.ask(request, 8)) == [ErrorCode.NONE], "its retry is a duplicate"
    log = broker.broker.topics.partition(topic, 0)
    assert log.log_end_offset == 5_003
    records, _ = log.read(3, 1 << 20, log.bounds(FetchIsolation.LOG_END))
    assert read_header(memoryview(bytes(records))).record_count == 5_000


def test_a_record_without_a_key_is_found_in_a_large_batch(broker: VirtualBroker) -> None:
    request = _request("compacted", _many(5_000, key=None), _many(5_000))
    assert _errors(broker.ask(request, 8)) == [ErrorCode.INVALID_RECORD, ErrorCode.NONE]


def test_data_that_cannot_be_decompressed_leaves_the_way_to_the_next(broker: VirtualBroker) -> None:
    broken = bytearray(_many(5_000))
    broken[-20:] = bytes(20)
    broken[CRC_AT : CRC_AT + 4] = crc32c(memoryview(broken)[CRC_COVERS_FROM:]).to_bytes(4, "big")
    assert _errors(broker.ask(_request("compacted", bytes(broken)), 8)) == [ErrorCode.INVALID_RECORD]
    assert _errors(broker.ask(_request("compacted", _many(5_000)), 8)) == [ErrorCode.NONE]


def test_others_are_served_while_ten_clients_have_theirs_opened(broker: VirtualBroker) -> None:
    batch = _many(20_000)
    replies = [broker.start(_request("compacted", batch), 8) for _ in range(10)]
    asked = broker.start(MetadataRequest(topics=()), 9)
    turns = 0
    while not asked.is_there:
        broker.time.turn()
        turns += 1
    assert turns < 5
    assert sum(reply.is_there for reply in replies) <= 1
    broker.time.settle()
    assert {error for reply in replies for error in _errors(reply.message)} == {ErrorCode.NONE}


def test_a_batch_is_appended_with_the_settings_that_hold_when_it_is(broker: VirtualBroker) -> None:
    """They change while it is opened: it is opened again."""
    reply = broker.start(_request("compacted", _many(50_000, key=None)), 8)
    assert not reply.is_there
    kind = AlterableConfig(name="compression.type", value="gzip")
    altered = AlterConfigsResource(resource_type=2, resource_name="compacted", configs=[kind])
    other = broker.start(_request("compacted", _many(50_000)), 8)
    broker.ask(IncrementalAlterConfigsRequest(resources=[altered]), 1)
    assert _errors(reply.message) == [ErrorCode.INVALID_RECORD]
    assert _errors(other.message) == [ErrorCode.NONE]
    log = broker.broker.topics.partition("compacted", 0)
    records, _ = log.read(0, 1 << 20, log.bounds(FetchIsolation.LOG_END))
    assert read_header(memoryview(bytes(records))).compression_type == CODECS["gzip"]
