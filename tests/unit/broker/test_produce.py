"""Produce, as a client sees it: what is refused, with which code, and that nothing refused is written."""

import pytest

from oncelog.broker.requests.context import Peer
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.topics import INTERNAL_TOPICS
from tests.fakes.broker import HOST, PORT, VirtualBroker

TOPIC = "topic"


@pytest.fixture
def broker() -> VirtualBroker:
    running = VirtualBroker()
    running.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)]), 4)
    return running


def good(value: bytes = b"value", **options: object) -> bytes:
    return encode_batch([Record(0, 1_700_000_000_000, None, value)], **options)  # type: ignore[arg-type]


def ask(
    broker: VirtualBroker,
    batch: bytes | None,
    *,
    acks: int = -1,
    topic: str = TOPIC,
    partition: int = 0,
    transactional_id: str | None = None,
    version: int = 8,
) -> ErrorCode:
    records = None if batch is None else memoryview(batch)
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    request = ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=[data])
    (answer,) = broker.ask(request, version).responses[0].partition_responses
    assert (answer.base_offset >= 0) is (answer.error_code == ErrorCode.NONE)
    return ErrorCode(answer.error_code)


def flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes((batch[-1] ^ 1,))


@pytest.mark.parametrize("acks", [1, -1])
def test_an_acknowledged_offset_is_below_the_high_watermark(broker: VirtualBroker, acks: int) -> None:
    data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(good()))])
    reply = broker.start(ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[data]), 8)
    log = broker.broker.topics.partition(TOPIC, 0)
    assert (log.log_end_offset, log.high_watermark, reply.is_there) == (1, 0, False)
    broker.time.settle()
    assert log.high_watermark == 1
    assert reply.message.responses[0].partition_responses[0].base_offset == 0


def test_a_batch_with_a_wrong_crc_is_corrupt_and_the_next_good_one_is_the_first(broker: VirtualBroker) -> None:
    assert ask(broker, flipped(good())) is ErrorCode.CORRUPT_MESSAGE
    log = broker.broker.topics.partition(TOPIC, 0)
    assert log.log_end_offset == 0
    assert ask(broker, good()) is ErrorCode.NONE
    assert log.log_end_offset == 1


def test_a_batch_above_the_limit_is_too_large(broker: VirtualBroker) -> None:
    limit = broker.broker.topics.partition(TOPIC, 0).config.max_message_bytes
    assert ask(broker, good(b"x" * limit)) is ErrorCode.MESSAGE_TOO_LARGE
    assert ask(broker, good(b"x" * (limit - 200))) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"acks": 2}, ErrorCode.INVALID_REQUIRED_ACKS),
        ({"partition": 77}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": -1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "../../etc"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "x" * 300}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"topic": "__transaction_state"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"topic": "__consumer_offsets"}, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
def test_what_is_addressed_wrongly_is_refused_as_kafka_does(
    broker: VirtualBroker, options: dict[str, object], expected: ErrorCode
) -> None:
    for name in INTERNAL_TOPICS:
        broker.broker.topics.ensure_internal(name)
    broker.time.settle()
    assert ask(broker, good(), **options) is expected  # type: ignore[arg-type]


def test_a_partition_without_records_is_refused(broker: VirtualBroker) -> None:
    assert ask(broker, None) is ErrorCode.INVALID_RECORD


def test_transactional_records_need_a_transactional_id_and_a_transaction(broker: VirtualBroker) -> None:
    batch = good(producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    assert ask(broker, batch) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    # The coordinator's topic does not exist yet: try again, as after every answer that may change.
    assert ask(broker, batch, transactional_id="unknown") is ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_duplicate_is_answered_with_its_first_offset_and_not_written(broker: VirtualBroker) -> None:
    batch = good(producer_id=7, producer_epoch=0, base_sequence=0)
    log = broker.broker.topics.partition(TOPIC, 0)
    assert ask(broker, good()) is ErrorCode.NONE
    assert ask(broker, batch) is ErrorCode.NONE
    assert ask(broker, batch) is ErrorCode.NONE
    assert log.log_end_offset == 2
    gap = good(producer_id=7, producer_epoch=0, base_sequence=5)
    assert ask(broker, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_what_is_sent_without_acks_is_written_whole_though_the_client_closes_at_once() -> None:
    running = VirtualBroker()
    running.ask(CreateTopicsRequest(topics=[CreatableTopic(name=TOPIC, num_partitions=100, replication_factor=1)]), 4)
    data = [PartitionProduceData(index=index, records=memoryview(good())) for index in range(100)]
    request = ProduceRequest(acks=0, timeout_ms=1_000, topic_data=[TopicProduceData(name=TOPIC, partition_data=data)])
    peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", (HOST, PORT))
    running.dispatcher.dispatch(running.frame(request, 8), peer)
    peer.disconnect()
    running.time.settle()
    assert [running.broker.topics.partition(TOPIC, index).log_end_offset for index in range(100)] == [1] * 100
