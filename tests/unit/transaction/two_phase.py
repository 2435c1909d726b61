"""A producer that takes part in a two-phase commit, request by request (KIP-939)."""

from dataclasses import dataclass

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from tests.clients.producer import TIMEOUT_MS, TRANSACTIONAL_ID, Producer, broker_with_topic
from tests.fakes.broker import VirtualBroker

TWO_PHASE = "transaction.two.phase.commit.enable=true"
NOTHING = (-1, -1)


@dataclass(frozen=True)
class Initialized:
    error: ErrorCode
    pair: tuple[int, int]
    ongoing: tuple[int, int]


def initialize(
    broker: VirtualBroker,
    *,
    keeps: bool = False,
    enables: bool = True,
    pair: tuple[int, int] = NOTHING,
    timeout_ms: int = TIMEOUT_MS,
) -> Initialized:
    request = InitProducerIdRequest(
        transactional_id=TRANSACTIONAL_ID,
        transaction_timeout_ms=timeout_ms,
        producer_id=pair[0],
        producer_epoch=pair[1],
        enable2_pc=enables,
        keep_prepared_txn=keeps,
    )
    answer = broker.ask(request, 6)
    assert isinstance(answer, InitProducerIdResponse)
    return Initialized(
        ErrorCode(answer.error_code),
        (answer.producer_id, answer.producer_epoch),
        (answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch),
    )


def producer_of(broker: VirtualBroker, pair: tuple[int, int]) -> Producer:
    producer = Producer(broker)
    producer.producer_id, producer.producer_epoch = pair
    return producer


def prepared(*overrides: str, version: int = 12) -> Producer:
    """Has written to both partitions and will say no more: what an external coordinator calls prepared."""
    broker = broker_with_topic(TWO_PHASE, *overrides)
    producer = producer_of(broker, initialize(broker).pair)
    write(producer, version)
    return producer


def write(producer: Producer, version: int = 12) -> None:
    for partition in (0, 1):
        if version < 12:
            assert producer.add(partition) == [ErrorCode.NONE]
        assert producer.produce(partition, version=version) is ErrorCode.NONE


def taken_over(broker: VirtualBroker, ongoing: tuple[int, int]) -> Producer:
    """The next instance, which has found the transaction of `ongoing`."""
    initialized = initialize(broker, keeps=True)
    assert (initialized.error, initialized.ongoing) == (ErrorCode.NONE, ongoing)
    return producer_of(broker, initialized.pair)


def state_of(broker: VirtualBroker) -> str:
    (state,) = broker.ask(DescribeTransactionsRequest(transactional_ids=[TRANSACTIONAL_ID]), 0).transaction_states
    return str(state.transaction_state)
