"""The transaction requests against a whole broker: versions, codes, and what the partitions see."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.write_txn_markers_request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from oncelog.protocol.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from tests.clients.producer import TIMEOUT_MS, TOPIC, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker

E = ErrorCode
pytestmark = pytest.mark.usefixtures("every_version")


# --- fenced, in the words of each version ---


@pytest.mark.parametrize(
    ("version", "expected"),
    [(0, E.INVALID_PRODUCER_EPOCH), (1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED), (3, E.PRODUCER_FENCED)],
)
def test_a_fenced_producer_gets_the_error_code_of_its_version(version: int, expected: ErrorCode) -> None:
    broker = broker_with_topic()
    old = Producer(broker).init()
    Producer(broker).init()
    assert old.add(0, version=version) == [expected]
    assert old.end(version=version) is expected
    request = AddOffsetsToTxnRequest(group_id="group", **old.identity)
    assert broker.ask(request, version).error_code == expected


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_fenced_producer_that_resumes_gets_the_error_code_of_its_version(version: int) -> None:
    broker = broker_with_topic()
    old = Producer(broker).init()
    Producer(broker).init()
    answer = broker.ask(InitProducerIdRequest(transaction_timeout_ms=TIMEOUT_MS, **old.identity), version)
    assert answer.error_code == (E.INVALID_PRODUCER_EPOCH if version < 4 else E.PRODUCER_FENCED)
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)


# --- partitions that may not be added ---


def test_with_one_unknown_partition_nothing_is_added() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    assert producer.add(0, 7) == [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION]
    assert producer.produce(0) is E.TRANSACTION_ABORTABLE
    assert producer.end() is E.INVALID_TXN_STATE, "no transaction was opened"


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_a_client_may_not_add_an_internal_topic(topic: str) -> None:
    """Its marker would go into the coordinator's own log."""
    producer = Producer(broker_with_topic()).init()
    assert producer.add(0, topic=topic) == [E.TOPIC_AUTHORIZATION_FAILED]


def test_the_batched_form_answers_each_transaction_on_its_own() -> None:
    broker = broker_with_topic()
    good, stranger = Producer(broker, "good").init(), Producer(broker, "stranger")
    topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=(0,))]
    bad_topics = [AddPartitionsToTxnTopic(name=TOPIC, partitions=(0, 9))]
    request = AddPartitionsToTxnRequest(
        transactions=[
            AddPartitionsToTxnTransaction(topics=topics, **good.identity),
            AddPartitionsToTxnTransaction(topics=topics, **stranger.identity),
            AddPartitionsToTxnTransaction(topics=bad_topics, **good.identity),
        ]
    )
    answer = broker.ask(request, 4)
    codes = [
        [
            ErrorCode(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        ]
        for result in answer.results_by_transaction
    ]
    assert codes == [
        [E.NONE],
        [E.INVALID_PRODUCER_ID_MAPPING],
        [E.OPERATION_NOT_ATTEMPTED, E.UNKNOWN_TOPIC_OR_PARTITION],
    ]


def test_verify_only_answers_for_each_partition_and_adds_none() -> None:
    producer = Producer(broker_with_topic()).init()
    assert producer.add_for_broker(0, verify_only=True) == [E.TRANSACTION_ABORTABLE]
    assert producer.add_for_broker(0) == [E.NONE]
    assert producer.add_for_broker(0, 1, verify_only=True) == [E.NONE, E.TRANSACTION_ABORTABLE]
    producer.producer_epoch += 1
    assert producer.add_for_broker(0, 1, verify_only=True) == [E.PRODUCER_FENCED] * 2


# --- version 2 on the wire ---


@pytest.mark.parametrize("commit", [True, False])
def test_with_end_txn_5_every_transaction_has_its_own_epoch_and_begins_with_sequence_0(commit: bool) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for epoch in range(4):
        assert producer.producer_epoch == epoch
        assert producer.add_for_broker(0) == [E.NONE]
        assert producer.produce(0, sequence=0) is E.NONE
        broker.time.advance(10)
        assert log_of(broker).last_stable_offset < log_of(broker).high_watermark
        assert producer.end(commit, version=5) is E.NONE
        assert log_of(broker).last_stable_offset == log_of(broker).log_end_offset == 2 * (epoch + 1)


def test_a_late_batch_of_a_finished_transaction_is_fenced_by_its_epoch() -> None:
    """KAFKA-17754: what version 1 lets into the next transaction."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add_for_broker(0)
    producer.produce(0)
    late = Producer(broker)
    late.producer_id, late.producer_epoch = producer.pair
    producer.end(version=5)
    producer.add_for_broker(0)
    assert late.produce(0, sequence=1) is E.INVALID_PRODUCER_EPOCH
    late_end = late.ask_end(False, 5)
    assert late_end.error_code == E.PRODUCER_FENCED
    assert producer.produce(0) is E.NONE
    assert producer.end(version=5) is E.NONE


def test_the_answers_of_end_txn_5_as_kafka_gave_them() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    first = producer.pair
    assert producer.ask_end(True, 5).error_code == E.INVALID_TXN_STATE
    assert producer.end(False, version=5) is E.NONE
    assert producer.pair == (first[0], 1)
    producer.add_for_broker(0)
    producer.produce(0)
    bumped = producer.ask_end(True, 5)
    again = producer.ask_end(True, 5)
    assert (bumped.error_code, bumped.producer_epoch) == (again.error_code, again.producer_epoch) == (E.NONE, 2)
    opposite = producer.ask_end(False, 5)
    assert (opposite.error_code, opposite.producer_id, opposite.producer_epoch) == (E.INVALID_TXN_STATE, -1, -1)
    producer.producer_epoch = 0
    assert producer.ask_end(True, 5).error_code == E.PRODUCER_FENCED


def test_both_protocols_may_follow_each_other_on_one_id() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    sequence = 0
    for version in (5, 3, 3, 5, 3):
        producer.add(0)
        assert producer.produce(0, sequence=sequence) is E.NONE
        assert producer.end(version=version) is E.NONE
        # A marker of version 1 keeps the epoch, and with it the sequence.
        sequence = 0 if version == 5 else sequence + 1
        assert log_of(broker).last_stable_offset == log_of(broker).log_end_offset


# --- around the coordinator ---


def test_a_topic_deleted_in_mid_transaction_does_not_hold_up_its_end() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0, 1)
    producer.produce(0)
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC]), 3)
    assert producer.end() is E.NONE
    broker.let_pass(2_000)
    assert broker.broker.transactions.open_count == 0


def test_a_timed_out_transaction_frees_its_readers_and_its_producer_is_fenced_everywhere() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0)
    producer.produce(0)
    broker.let_pass(TIMEOUT_MS)
    assert log_of(broker).last_stable_offset == log_of(broker).log_end_offset == 2
    assert producer.produce(0, sequence=1) is E.INVALID_PRODUCER_EPOCH
    assert producer.add(0) == [E.PRODUCER_FENCED]
    assert producer.end() is E.PRODUCER_FENCED


@pytest.mark.parametrize("transactional_id", ["", "x" * 300, "ünï·cödé", "a\x00b"])
def test_an_id_is_any_text_but_the_empty_one(transactional_id: str) -> None:
    broker = broker_with_topic()
    answer = broker.ask(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000), 4)
    assert answer.error_code == (E.NONE if transactional_id else E.INVALID_REQUEST)
    assert broker.killed().broker.transactions.open_count == 0


# --- markers from outside ---


def write_marker(
    broker: VirtualBroker,
    producer: Producer,
    *,
    commit: bool = False,
    epoch: int | None = None,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    topic: str = TOPIC,
    partition: int = 0,
) -> ErrorCode:
    marker = WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch if epoch is None else epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,))],
    )
    answer = broker.ask(WriteTxnMarkersRequest(markers=[marker]), 2)
    return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)


def test_an_operator_ends_a_hanging_transaction_with_a_marker() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0)
    producer.produce(0)
    assert write_marker(broker, producer) is E.NONE
    assert log_of(broker).last_stable_offset == log_of(broker).log_end_offset


def test_a_marker_from_a_coordinator_of_the_past_is_refused_and_not_written() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add(0)
    producer.produce(0)
    assert write_marker(broker, producer, coordinator_epoch=5) is E.NONE
    end = log_of(broker).log_end_offset
    assert write_marker(broker, producer, coordinator_epoch=4) is E.TRANSACTION_COORDINATOR_FENCED
    assert write_marker(broker, producer, coordinator_epoch=5, epoch=-1) is E.INVALID_PRODUCER_EPOCH
    assert log_of(broker).log_end_offset == end


def test_a_late_marker_of_version_2_does_not_end_the_next_transaction() -> None:
    """KAFKA-19446, KIP-1228: and sent again after the fact it is harmless (KAFKA-19999)."""
    broker = broker_with_topic()
    producer = Producer(broker).init()
    producer.add_for_broker(0)
    producer.produce(0)
    producer.end(version=5)
    assert write_marker(broker, producer, commit=True, transaction_version=2) is E.NONE
    producer.add_for_broker(0)
    producer.produce(0)
    assert write_marker(broker, producer, commit=True, transaction_version=2) is E.INVALID_PRODUCER_EPOCH
    broker.time.advance(10)
    assert log_of(broker).last_stable_offset < log_of(broker).high_watermark
    assert producer.end(version=5) is E.NONE


def test_a_marker_for_an_unknown_partition_is_refused() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    assert write_marker(broker, producer, partition=9) is E.UNKNOWN_TOPIC_OR_PARTITION
    assert write_marker(broker, producer, topic="absent") is E.UNKNOWN_TOPIC_OR_PARTITION


def test_a_marker_in_the_coordinators_own_log_does_not_stop_the_next_start() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for partition in range(50):
        write_marker(broker, producer, topic=TRANSACTION_STATE, partition=partition)
    survivor = broker.killed()
    again = Producer(survivor).init()
    assert again.pair == (producer.producer_id, producer.producer_epoch + 1)
