"""Opening a transactional producer fences the one before it, and leaves nothing open where it cannot."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.client import FatalError, InvalidState, Producer, RequestTimedOut
from oncelog.client.values.errors import KafkaError
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.find_coordinator_response import FindCoordinatorResponse
from oncelog.protocol.generated.init_producer_id_response import InitProducerIdResponse
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

HOST = "host:1"
BLOCK_S = 60
BUSY = FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
REFUSED = InitProducerIdResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def silent(_: Any) -> None:
    """No response."""


def check_nothing_is_open(broker: ScriptedBroker, producer: Producer) -> None:
    assert broker.connect_count > 0
    assert broker.open_count == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(InvalidState):
        producer.transaction()


@virtually
async def test_opening_fences_once_and_the_first_transaction_does_not_again() -> None:
    """One InitProducerId is sent by opening, and none by `init_transactions` and the first transaction."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, transactional_id="id") as producer:
        assert [each.transactional_id for key, each in broker.seen if key is ApiKey.INIT_PRODUCER_ID] == ["id"]
        assert (await producer.init_transactions()).producer_id == 7
        async with producer.transaction() as transaction:
            assert transaction.producer_id == 7
        assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1


@virtually
async def test_opening_for_a_two_phase_commit_leaves_what_is_prepared() -> None:
    """InitProducerId without KeepPreparedTxn would abort what is prepared, so that opening sends none."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, transactional_id="id", transaction_two_phase_commit_enable=True) as producer:
        assert broker.count(ApiKey.INIT_PRODUCER_ID) == 0
        await producer.complete("")
    assert [each.keep_prepared_txn for key, each in broker.seen if key is ApiKey.INIT_PRODUCER_ID] == [True]


@virtually
async def test_opening_a_producer_without_transactions_asks_no_coordinator() -> None:
    """An idempotent producer asks for its id with its first record, of any node."""
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST) as producer:
        assert {key for key, _ in broker.seen} == {ApiKey.API_VERSIONS, ApiKey.METADATA}
        await producer.send(TOPIC, b"value")
    assert broker.count(ApiKey.FIND_COORDINATOR) == 0


@pytest.mark.parametrize(
    ("answers", "kind", "match", "least_s"),
    [
        ({ApiKey.FIND_COORDINATOR: lambda _: BUSY}, RequestTimedOut, "COORDINATOR_NOT_AVAILABLE", BLOCK_S),
        ({ApiKey.INIT_PRODUCER_ID: silent}, RequestTimedOut, "did not respond to INIT_PRODUCER_ID", BLOCK_S),
        ({ApiKey.INIT_PRODUCER_ID: lambda _: REFUSED}, FatalError, "lacks a right on the transactional id", 0),
    ],
    ids=["no coordinator", "silent", "refused"],
)
@virtually
async def test_opening_that_cannot_fence_raises_in_time_and_leaves_nothing_open(
    answers: dict[ApiKey, Callable[[Any], Any]], kind: type[KafkaError], match: str, least_s: float
) -> None:
    """max.block.ms is for connecting and fencing together; afterwards there is no connection and no task."""
    broker = ScriptedBroker({**OF_A_PRODUCER, **answers})
    broker.delays_s[ApiKey.METADATA] = 1.0
    producer = Producer(HOST, transactional_id="id", max_block_ms=BLOCK_S * 1000)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(kind, match=match):
        await producer.__aenter__()
    assert least_s <= asyncio.get_running_loop().time() - began_s < least_s + 2
    await pass_time(0)
    check_nothing_is_open(broker, producer)


@virtually
async def test_opening_that_is_cancelled_while_it_fences_leaves_nothing_open() -> None:
    """A program that is stopped while its coordinator is silent is not kept by it."""
    broker = ScriptedBroker({**OF_A_PRODUCER, ApiKey.INIT_PRODUCER_ID: silent})
    producer = Producer(HOST, transactional_id="id")
    opening = asyncio.ensure_future(producer.__aenter__())
    await pass_time(5)
    assert broker.count(ApiKey.INIT_PRODUCER_ID) == 1
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await pass_time(0)
    check_nothing_is_open(broker, producer)
