"""Produce v12 and v13 open transactions by themselves (KIP-890 part 2)."""

import pytest

from oncelog.protocol.errors import ErrorCode
from tests.clients.producer import Producer, broker_with_topic, log_of

E = ErrorCode


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_needs_no_request_but_produce_and_its_end(commit: bool, version: int) -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    for epoch in range(3):
        assert producer.producer_epoch == epoch
        for partition in (0, 1):
            for sequence in (0, 1):
                assert producer.produce(partition, sequence=sequence, version=version) is E.NONE
        assert producer.end(commit, version=5) is E.NONE
        for partition in (0, 1):
            log = log_of(broker, partition)
            assert log.last_stable_offset == log.log_end_offset == 3 * (epoch + 1)


def test_a_batch_is_appended_in_the_turn_that_adds_its_partition_and_both_are_durable_before_the_answer() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    rounds = broker.broker.rounds.round_count
    producing = producer.start_produce(version=12)
    assert broker.broker.transactions.open_count == 1
    assert log_of(broker).log_end_offset == 1
    assert log_of(broker).high_watermark == 0
    assert not producing.is_there
    broker.time.settle()
    assert producing.message.responses[0].partition_responses[0].base_offset == 0
    assert broker.broker.rounds.round_count == rounds + 1


def test_another_partition_is_added_while_the_first_addition_is_not_durable() -> None:
    broker = broker_with_topic()
    producer = Producer(broker).init()
    rounds = broker.broker.rounds.round_count
    first = producer.start_produce(0, version=12)
    second = producer.start_produce(1, version=12)
    assert log_of(broker, 1).log_end_offset == 1
    broker.time.settle()
    assert [reply.message.responses[0].partition_responses[0].error_code for reply in (first, second)] == [0, 0]
    assert broker.broker.rounds.round_count == rounds + 1
    assert producer.end(True, version=5) is E.NONE, "nothing is pending"


def test_a_first_sequence_other_than_0_is_out_of_order() -> None:
    """KAFKA-18202: each transaction of version 2 has its own epoch."""
    producer = Producer(broker_with_topic()).init()
    assert producer.produce(sequence=3, version=12) is E.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_fenced_producer_adds_and_writes_nothing() -> None:
    broker = broker_with_topic()
    old = Producer(broker).init()
    Producer(broker).init()
    assert old.produce(version=12) is E.INVALID_PRODUCER_EPOCH
    assert log_of(broker).log_end_offset == 0
    assert broker.broker.transactions.open_count == 0
