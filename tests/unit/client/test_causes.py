"""What an error says when a broker that was there has gone: which address, and what a connection to it meets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from oncelog.client import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    DeliveryTimeout,
    KafkaError,
    Producer,
    RequestTimedOut,
    TopicPartition,
)
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.find_coordinator_response import FindCoordinatorResponse
from oncelog.protocol.generated.produce_response import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import Answers, Connection, ScriptedBroker, VirtualLoop, virtually
from tests.unit.client.test_interrupts import OF_A_READER

HOST = "host:1"
PLACE = TopicPartition(TOPIC, 0)
REFUSED = "no connection to host:1: connection refused"


class MortalBroker(ScriptedBroker):
    is_down = False

    def connect(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol) -> Connection:
        if self.is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        return super().connect(loop, protocol)

    def die(self) -> None:
        self.is_down = True
        for each in self.connections:
            each.abort()


async def commit(broker: MortalBroker) -> None:
    async with Consumer(
        bootstrap_servers=HOST, group_id="group", enable_auto_commit=False, default_api_timeout_ms=3_000
    ) as consumer:
        await consumer.commit_sync({PLACE: 1})
        broker.die()
        await consumer.commit_sync({PLACE: 1})


async def list_topics(broker: MortalBroker) -> None:
    async with Admin(HOST, default_api_timeout_ms=3_000) as admin:
        await admin.list_topics()
        broker.die()
        await admin.list_topics()


async def look_up(broker: MortalBroker) -> None:
    async with Consumer(bootstrap_servers=HOST, default_api_timeout_ms=3_000) as consumer:
        broker.die()
        await consumer.end_offsets([PLACE])


@pytest.mark.parametrize("call", [commit, list_topics, look_up])
@virtually
async def test_a_call_to_a_broker_that_has_gone_down_says_its_address_and_why_it_is_not_reached(
    call: Callable[[MortalBroker], Awaitable[None]],
) -> None:
    broker = MortalBroker(OF_A_READER)
    with pytest.raises(RequestTimedOut, match=REFUSED):
        await call(broker)


@virtually
async def test_a_coordinator_that_is_busy_for_too_long_is_said_to_be_so() -> None:
    answers: Answers = {
        **OF_A_READER,
        ApiKey.FIND_COORDINATOR: lambda _: FindCoordinatorResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    }
    ScriptedBroker(answers)
    async with Consumer(
        bootstrap_servers=HOST, group_id="group", enable_auto_commit=False, default_api_timeout_ms=3_000
    ) as consumer:
        with pytest.raises(RequestTimedOut, match="COORDINATOR_NOT_AVAILABLE"):
            await consumer.commit_sync({PLACE: 1})


@pytest.mark.parametrize("count", [1, 2])
@virtually
async def test_records_that_were_never_sent_say_so_and_what_kept_them(count: int) -> None:
    broker = MortalBroker(OF_A_PRODUCER)
    what = "1 record was" if count == 1 else "2 records were"
    async with Producer(HOST, delivery_timeout_ms=31_000, linger_ms=5) as producer:
        await producer.partitions_for(TOPIC)
        broker.die()
        deliveries = [await producer.send_soon(TOPIC, b"value", partition=0) for _ in range(count)]
        with pytest.raises(DeliveryTimeout, match=rf"^{what} not delivered to topic-0: {REFUSED} \(.*never sent"):
            await deliveries[0]


@virtually
async def test_a_record_that_was_sent_and_has_no_response_may_have_been_written() -> None:
    broker = MortalBroker(OF_A_PRODUCER)

    def produce(_: Any) -> None:
        broker.die()

    broker.answers[ApiKey.PRODUCE] = produce
    async with Producer(HOST, delivery_timeout_ms=31_000) as producer:
        with pytest.raises(DeliveryTimeout, match=rf"{REFUSED} \(.*may have been written"):
            await producer.send(TOPIC, b"value")


@virtually
async def test_a_record_that_the_broker_puts_off_again_and_again_says_with_which_error() -> None:
    refused = [PartitionProduceResponse(index=0, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)]
    answer = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=refused)])
    ScriptedBroker({**OF_A_PRODUCER, ApiKey.PRODUCE: lambda _: answer})
    async with Producer(HOST, delivery_timeout_ms=31_000) as producer:
        with pytest.raises(DeliveryTimeout, match="1 record was not delivered to topic-0: NOT_ENOUGH_REPLICAS"):
            await producer.send(TOPIC, b"value")


@virtually
async def test_offsets_of_a_transaction_say_why_their_coordinator_is_not_reached() -> None:
    broker = MortalBroker(OF_A_PRODUCER)
    async with Producer(HOST, transactional_id="id", max_block_ms=3_000) as producer:
        transaction = producer.transaction()
        await transaction.__aenter__()
        broker.die()
        with pytest.raises(KafkaError, match=REFUSED):
            await transaction.send_offsets({PLACE: 1}, group=ConsumerGroupMetadata("group"))
