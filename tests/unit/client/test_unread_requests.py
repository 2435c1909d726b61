"""A broker that stays connected and reads nothing: with acks=0 no response limits what is sent to it."""

import asyncio

import pytest

from oncelog.client import Producer, QueueFull
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.records.batch import read_header
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import HIGH_WATER_BYTES, ScriptedBroker, pass_time, virtually

HOST = "host:1"
MEMORY = 1 << 20
BATCH = 16 << 10
REQUEST_MS = 10_000


def unacknowledged() -> Producer[bytes, bytes]:
    return Producer(
        HOST,
        acks=0,
        enable_idempotence=False,
        buffer_memory=MEMORY,
        batch_size=BATCH,
        max_block_ms=1_000,
        request_timeout_ms=REQUEST_MS,
    )


async def fill(producer: Producer[bytes, bytes]) -> int:
    """Records taken until the buffer is full."""
    taken = 0
    with pytest.raises(QueueFull):
        while taken < 100 * MEMORY // 1_000:
            await producer.send_soon(TOPIC, bytes(1_000))
            taken += 1
    return taken


def received_count(broker: ScriptedBroker) -> int:
    """Records in the Produce requests."""
    requests = [request for key, request in broker.seen if key is ApiKey.PRODUCE]
    batches = [part.records for each in requests for topic in each.topic_data for part in topic.partition_data]
    return sum(read_header(memoryview(each)).record_count for each in batches)


def without_responses() -> ScriptedBroker:
    return ScriptedBroker({**OF_A_PRODUCER, ApiKey.PRODUCE: lambda _: None})


@virtually
async def test_what_a_broker_does_not_read_stays_in_buffer_memory() -> None:
    broker = without_responses()
    producer = await unacknowledged().__aenter__()
    await producer.send(TOPIC, b"first")
    broker.reads = False
    assert await fill(producer) < 2 * MEMORY // 1_000
    assert max(each.unread_bytes for each in broker.connections) <= HIGH_WATER_BYTES + 2 * BATCH
    await producer.close(0)


@virtually
async def test_a_broker_that_reads_again_gets_everything() -> None:
    broker = without_responses()
    async with unacknowledged() as producer:
        await producer.send(TOPIC, b"first")
        broker.reads = False
        taken = await fill(producer)
        assert received_count(broker) == 1
        broker.read_on()
        await producer.flush(timeout_ms=1_000)
        assert received_count(broker) == 1 + taken


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "silent"])
@virtually
async def test_what_waits_behind_a_full_connection_is_sent_over_the_next_one(is_closed: bool) -> None:
    """The next connection is opened when the broker closes the full one, or has not read for request.timeout.ms."""
    broker = without_responses()
    async with unacknowledged() as producer:
        await producer.send(TOPIC, b"first")
        broker.reads = False
        begun_s = asyncio.get_running_loop().time()
        taken = await fill(producer)
        unread_bytes = max(each.unread_bytes for each in broker.connections)
        broker.reads = True
        if is_closed:
            for each in broker.connections:
                each.close()
        await pass_time(REQUEST_MS / 1000)
        assert asyncio.get_running_loop().time() - begun_s < 15
        assert received_count(broker) >= taken - unread_bytes // 1_000
