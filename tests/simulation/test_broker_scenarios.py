"""Scenes at the edge of a whole broker: many at once, much at once. Each names its row of the fault list."""

import pytest

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from tests.clients.producer import TIMEOUT_MS, TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.broker import VirtualBroker

CLIENTS = 20
PARTITIONS = 1_000


@pytest.mark.parametrize("version", [4, 5])
def test_of_twenty_clients_that_take_one_id_at_once_one_epoch_lives_in_the_end(version: int) -> None:
    """A13: each retries while it gets CONCURRENT_TRANSACTIONS, then writes with the epoch that it got."""
    broker = broker_with_topic()
    request = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS)
    waiting, told = list(range(CLIENTS)), {}
    while waiting:
        replies = {client: broker.start(request, version) for client in waiting}
        broker.time.settle()
        for client, reply in replies.items():
            if not reply.message.error_code:
                told[client] = (reply.message.producer_id, reply.message.producer_epoch)
            else:
                assert reply.message.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        waiting = [client for client in waiting if client not in told]
        broker.let_pass(20)
    assert len(set(told.values())) == CLIENTS, "two clients share an epoch"
    alive = []
    for pair in told.values():
        producer = Producer(broker)
        producer.producer_id, producer.producer_epoch = pair
        if producer.add(0) == [ErrorCode.NONE]:
            alive.append(pair)
    assert alive == [max(told.values())]


@pytest.mark.slow
@pytest.mark.sampled(2)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_a_thousand_partitions_ends_in_all_of_them_though_the_broker_is_killed(commit: bool) -> None:
    """A18."""
    broker = VirtualBroker()
    wanted = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 4)
    broker.ask(FindCoordinatorRequest(key=TRANSACTIONAL_ID, key_type=1), 2)
    producer = Producer(broker).init()
    assert set(producer.add(*range(PARTITIONS))) == {ErrorCode.NONE}
    for partition in range(0, PARTITIONS, 100):
        assert producer.produce(partition) == ErrorCode.NONE
    assert producer.end(commit) == ErrorCode.NONE
    broker = broker.killed()
    for partition in range(PARTITIONS):
        log = log_of(broker, partition)
        # A marker in each, behind the batch where there is one.
        assert log.last_stable_offset == log.log_end_offset == (2 if partition % 100 == 0 else 1)
    assert Producer(broker).init().add(0) == [ErrorCode.NONE]


def test_ten_thousand_idle_producer_ids_are_forgotten_in_time_and_a_live_one_is_not() -> None:
    """B23."""
    broker = broker_with_topic("producer.id.expiration.ms=60000")
    logs, log, alive = broker.broker.logs, log_of(broker), 10_000
    logs.step()
    for producer_id in range(alive, 2 * alive):
        write(broker, producer_id, sequence=0)
    assert len(list(log.producer_state.producers())) == alive
    broker.let_pass(30 * 60_000)
    write(broker, alive, sequence=1)
    logs.step()
    assert [producer.producer_id for producer in log.producer_state.producers()] == [alive]


def test_an_idle_producer_id_is_gone_by_the_next_check_whose_interval_is_a_setting() -> None:
    """It holds also if the time was made shorter while the broker runs."""
    broker = broker_with_topic("producer.id.expiration.check.interval.ms=500")
    write(broker, 7, sequence=0)
    broker.let_pass(10_000)
    assert len(list(log_of(broker).producer_state.producers())) == 1
    change = AlterableConfig(name="producer.id.expiration.ms", config_operation=0, value="13000")
    resource = AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    assert broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
    broker.let_pass(2_500)
    broker.broker.logs.step()
    assert len(list(log_of(broker).producer_state.producers())) == 1
    broker.let_pass(1_500)
    broker.broker.logs.step()
    assert list(log_of(broker).producer_state.producers()) == []


def write(broker: VirtualBroker, producer_id: int, sequence: int) -> None:
    batch = encode_batch([Record(0, 1, None, b"")], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    log_of(broker).append(memoryview(batch), wall_ms=broker.time.wall_ms())
