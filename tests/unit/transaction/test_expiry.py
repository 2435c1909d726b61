"""Transactional ids are forgotten after transactional.id.expiration.ms, and never while a transaction is open."""

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.end_txn_request import EndTxnRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from tests.fakes.broker import VirtualBroker

EXPIRATION_MS, INTERVAL_MS = 100_000, 1_000


def started() -> VirtualBroker:
    broker = VirtualBroker(
        f"transactional.id.expiration.ms={EXPIRATION_MS}",
        f"transaction.remove.expired.transaction.cleanup.interval.ms={INTERVAL_MS}",
    )
    broker.ask(CreateTopicsRequest(topics=[CreatableTopic(name="topic", num_partitions=1, replication_factor=1)]), 4)
    broker.ask(FindCoordinatorRequest(key="id", key_type=1), 2)
    return broker


def init(broker: VirtualBroker, timeout_ms: int = 60_000) -> tuple[int, int]:
    answer = broker.ask(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=timeout_ms), 1)
    assert answer.error_code == ErrorCode.NONE
    return answer.producer_id, answer.producer_epoch


def end(broker: VirtualBroker, pair: tuple[int, int]) -> ErrorCode:
    request = EndTxnRequest(transactional_id="id", producer_id=pair[0], producer_epoch=pair[1], committed=False)
    return ErrorCode(broker.ask(request, 2).error_code)


def pass_time(broker: VirtualBroker, delay_ms: int) -> None:
    broker.time.advance(delay_ms)
    broker.broker.transactions.step()
    broker.time.settle()


def test_an_idle_id_is_forgotten_for_good_and_starts_afresh() -> None:
    broker = started()
    first = init(broker)
    pass_time(broker, EXPIRATION_MS - INTERVAL_MS)
    assert init(broker) == (first[0], 1)
    pass_time(broker, EXPIRATION_MS)
    assert end(broker, (first[0], 1)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    survivor = broker.killed()
    fresh = init(survivor)
    assert fresh[0] != first[0] and fresh[1] == 0


def test_an_open_transaction_keeps_its_id() -> None:
    broker = started()
    pair = init(broker, timeout_ms=800_000)
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="id",
        v3_and_below_producer_id=pair[0],
        v3_and_below_producer_epoch=pair[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="topic", partitions=(0,))],
    )
    broker.ask(add, 0)
    pass_time(broker, 2 * EXPIRATION_MS)
    assert end(broker, pair) is ErrorCode.NONE
