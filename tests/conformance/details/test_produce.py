"""Details of writing: acks, batches, duplicates, sequences."""

from uuid import UUID

import pytest
from crc32c import crc32c

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.protocol.generated.metadata_request import MetadataRequest, MetadataRequestTopic
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.producer import Producer, broker_with_topic
from tests.conformance.details.asking import (
    NO_ID,
    NOW_MS,
    TOPIC,
    batch,
    create,
    fetch,
    list_offset,
    produce,
    produce_request,
    with_topic,
)
from tests.fakes.broker import VirtualBroker

E = ErrorCode


def code(broker: VirtualBroker, records: bytes, version: int = 8, topic: str = TOPIC) -> ErrorCode:
    return ErrorCode(produce(broker, records, version, topic=topic).error_code)


def test_detail_09_acks_other_than_minus_1_0_and_1_are_refused_for_each_partition() -> None:
    broker = with_topic(partitions=2)
    for acks in (2, -2, 32_767):
        answer = broker.ask(produce_request(batch(), acks=acks, partitions=(0, 1)), 8)
        assert [each.error_code for each in answer.responses[0].partition_responses] == [E.INVALID_REQUIRED_ACKS] * 2
    assert list_offset(broker, -1).offset == 0


def _with_count(records: bytes, last_offset_delta: int) -> bytes:
    """The batch with another last offset delta, and a CRC that fits."""
    changed = records[:23] + last_offset_delta.to_bytes(4, "big") + records[27:]
    return changed[:17] + crc32c(changed[21:]).to_bytes(4, "big") + changed[21:]


def test_detail_10_a_partition_takes_one_good_batch_of_magic_2_and_says_what_is_wrong_with_any_other() -> None:
    broker = with_topic()
    limit = broker.broker.topics.partition(TOPIC, 0).config.max_message_bytes
    refused = {
        "two batches": (batch() + batch(), E.INVALID_RECORD),
        "a control batch": (batch(control=True), E.INVALID_RECORD),
        "a producer id without a sequence": (
            batch(producer_id=7, producer_epoch=0, base_sequence=-1),
            E.INVALID_RECORD,
        ),
        "another CRC": (batch()[:-1] + b"\xff", E.CORRUPT_MESSAGE),
        "a count that lies": (_with_count(batch(), 9), E.INVALID_RECORD),
        "magic 1": (batch()[:16] + b"\1" + batch()[17:], E.INVALID_RECORD),
        "more than max.message.bytes": (batch(bytes(limit)), E.MESSAGE_TOO_LARGE),
    }
    assert {name: code(broker, records) for name, (records, _) in refused.items()} == {
        name: expected for name, (_, expected) in refused.items()
    }
    zstd = batch(b"value" * 100, compression="zstd")
    assert code(broker, zstd, version=6) == E.UNSUPPORTED_COMPRESSION_TYPE
    assert list_offset(broker, -1).offset == 0
    assert code(broker, zstd, version=7) == E.NONE

    create(broker, "compacted", cleanup_policy="compact")
    records = [Record(0, NOW_MS, b"key", b"value"), Record(1, NOW_MS, None, b"value")]
    answer = produce(broker, encode_batch(records), topic="compacted")
    assert answer.error_code == E.INVALID_RECORD
    assert [each.batch_index for each in answer.record_errors] == [1]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("validation", ["full", "short"])
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_timestamp_out_of_range_is_blamed_on_its_records_and_no_other(
    side: str, validation: str, compression: str
) -> None:
    """A producer's future of each record has what its own record did wrong (KIP-467), whether it is too old or too
    new."""
    limit = {f"message_timestamp_{side}_max_ms": "1000"}
    broker = with_topic(f"oncelog.record.validation={validation}", **limit)
    away_ms = -2_000 if side == "before" else 2_000
    first, second = (away_ms, 0) if side == "before" else (0, away_ms)
    records = [Record(0, NOW_MS + first, None, b"a"), Record(1, NOW_MS + second, None, b"b")]
    answer = produce(broker, encode_batch(records, compression=compression))
    assert answer.error_code == E.INVALID_TIMESTAMP
    assert answer.error_message == "One or more records have been rejected due to invalid timestamp"
    assert [each.batch_index for each in answer.record_errors] == [0 if side == "before" else 1]


@pytest.mark.parametrize("version", [3, 8, 11, 12, 13])
def test_detail_11_transactional_records_without_a_transactional_id_fail_the_whole_request(version: int) -> None:
    broker = broker_with_topic()
    topic_id = broker.broker.topics.partition(TOPIC, 0).topic_id if version >= 13 else NO_ID
    records = batch(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    answer = broker.ask(produce_request(records, topic_id=topic_id, partitions=(0, 1)), version)
    errors = [each.error_code for each in answer.responses[0].partition_responses]
    assert errors == [E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED] * 2


def test_detail_12_transactional_batches_of_two_producers_do_not_go_in_one_request() -> None:
    broker = broker_with_topic()
    first, second = (batch(producer_id=each, producer_epoch=0, base_sequence=0, transactional=True) for each in (7, 8))
    request = produce_request(first, transactional_id="id", partitions=(0, 1))
    both = request.topic_data[0].partition_data
    object.__setattr__(both[1], "records", memoryview(second))
    errors = [each.error_code for each in broker.ask(request, 8).responses[0].partition_responses]
    assert errors == [E.INVALID_PRODUCER_ID_MAPPING] * 2


def test_detail_13_a_duplicate_of_the_last_five_batches_gets_its_old_offset_and_is_not_written_again() -> None:
    broker = with_topic()

    def send(sequence: int) -> tuple[int, int]:
        answer = produce(broker, batch(producer_id=7, producer_epoch=0, base_sequence=sequence))
        return answer.error_code, answer.base_offset

    first = [send(sequence) for sequence in range(6)]
    assert first == [(E.NONE, offset) for offset in range(6)]
    assert [send(sequence) for sequence in range(1, 6)] == first[1:]
    assert send(0) == (E.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert list_offset(broker, -1).offset == 6


def test_detail_14_a_marker_of_the_same_epoch_keeps_the_sequences_and_one_of_a_higher_epoch_resets_them() -> None:
    """The first is transaction.version 1, the second transaction.version 2."""
    producer = Producer(broker_with_topic("oncelog.feature.transaction.version=1")).init()
    for sequence in range(2):
        assert producer.add(0) == [E.NONE]
        assert producer.produce(sequence=sequence) == E.NONE
        assert producer.end() == E.NONE
    assert producer.add(0) == [E.NONE]
    assert producer.produce(sequence=0) == E.NONE, "a duplicate of the first transaction"
    assert producer.produce(sequence=3) == E.OUT_OF_ORDER_SEQUENCE_NUMBER

    producer = Producer(broker_with_topic()).init()
    for _ in range(2):
        assert producer.produce(sequence=0, version=12) == E.NONE
        assert producer.produce(sequence=1, version=12) == E.NONE
        assert producer.end(version=5) == E.NONE
    assert producer.produce(sequence=2, version=12) == E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_detail_15_produce_returns_the_log_start_offset() -> None:
    """Java would retry UNKNOWN_PRODUCER_ID for ever if it were -1."""
    broker = with_topic()
    assert produce(broker, batch(b"a", b"b", b"c"), 5).log_start_offset == 0
    partition = DeleteRecordsPartition(partition_index=0, offset=2)
    broker.ask(
        DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=TOPIC, partitions=[partition])], timeout_ms=1_000), 2
    )
    assert [produce(broker, batch(), version).log_start_offset for version in range(5, 13)] == [2] * 8


def test_detail_18_produce_from_version_13_names_topics_by_id_alone() -> None:
    broker = VirtualBroker()
    topic_id = create(broker, TOPIC)
    assert produce(broker, batch(), 13, topic_id=topic_id).error_code == E.NONE
    answer = broker.ask(produce_request(batch(), topic_id=UUID(int=5), partitions=(0, 1)), 13)
    errors = [each.error_code for each in answer.responses[0].partition_responses]
    assert errors == [E.UNKNOWN_TOPIC_ID] * 2
    assert answer.responses[0].topic_id == UUID(int=5)
    assert len(fetch(broker).records or b"") == len(batch())
    (topic,) = broker.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 10).topics
    assert topic.topic_id == topic_id
