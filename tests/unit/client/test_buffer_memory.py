"""What buffer.memory holds, and which sender gets the room that a batch leaves when it ends."""

import asyncio

import pytest

from oncelog.client import AbortableError, Producer, QueueFull, RecordMetadata
from oncelog.protocol.api_keys import ApiKey
from tests.fakes.scripted_answers import OF_A_PRODUCER, TOPIC
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually
from tests.unit.client.test_interrupts import OF_A_WRITER

HOST = "host:1"
ROUND_TRIP_S = 0.01


@virtually
async def test_records_that_wait_for_room_share_batches() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.PRODUCE] = ROUND_TRIP_S
    async with Producer(HOST, buffer_memory=64 << 10) as producer:
        await producer.send(TOPIC, b"first")
        begun_s = asyncio.get_running_loop().time()
        await asyncio.gather(*(producer.send(TOPIC, bytes(100)) for _ in range(5_000)))
        # 36 full batches, and as many whose one record took the last room.
        assert broker.count(ApiKey.PRODUCE) < 100
        assert asyncio.get_running_loop().time() - begun_s < 50 * ROUND_TRIP_S


@virtually
async def test_a_waiter_that_is_cancelled_as_it_is_woken_leaves_its_room_to_the_next() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, buffer_memory=1, max_block_ms=60_000) as producer:
        await producer.send(TOPIC, b"first")
        broker.delays_s[ApiKey.PRODUCE] = ROUND_TRIP_S
        holder = await producer.send_soon(TOPIC, b"holds the whole buffer")
        first, second = (asyncio.ensure_future(producer.send(TOPIC, b"waits")) for _ in range(2))
        # Called in the turn that wakes the first, before it runs.
        holder._batch.callbacks.append(first.cancel)
        await second
        assert first.cancelled()
        assert asyncio.get_running_loop().time() < 1


@virtually
async def test_all_that_wait_for_room_when_their_transaction_fails_raise_what_has_failed_it() -> None:
    ScriptedBroker({**OF_A_WRITER, ApiKey.PRODUCE: lambda _: None})
    async with Producer(
        HOST, transactional_id="id", buffer_memory=1, delivery_timeout_ms=5_000, request_timeout_ms=5_000
    ) as producer:
        with pytest.raises(AbortableError):
            async with producer.transaction() as transaction:
                await transaction.send_soon(TOPIC, b"holds the whole buffer")
                waiting = [asyncio.ensure_future(transaction.send(TOPIC, b"waits")) for _ in range(3)]
                ended = await asyncio.gather(*waiting, return_exceptions=True)
                assert [isinstance(each, AbortableError) for each in ended] == [True] * 3, ended
                assert asyncio.get_running_loop().time() < 12
        await producer.close(0)


@virtually
async def test_a_waiter_keeps_its_place_when_another_record_takes_the_room_before_it_runs() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    async with Producer(HOST, buffer_memory=1, batch_size=1) as producer:
        await producer.send(TOPIC, b"first")
        broker.delays_s[ApiKey.PRODUCE] = ROUND_TRIP_S
        holder = await producer.send_soon(TOPIC, b"holds the whole buffer")
        order: list[str] = []

        async def send(name: str) -> None:
            await producer.send_soon(TOPIC, name.encode())
            order.append(name)

        waiting = [asyncio.ensure_future(send(name)) for name in ("a", "b")]

        def overtake() -> None:
            waiting.append(asyncio.ensure_future(send("overtakes")))

        # Before the batch wakes "a", so that its task runs before that of "a" does.
        holder._batch.callbacks.insert(0, overtake)
        await pass_time(1)
        await asyncio.gather(*waiting)
        assert order == ["overtakes", "a", "b"]


@pytest.mark.parametrize("batch_size", [0, 16 << 10])
@virtually
async def test_records_larger_than_a_batch_count_for_what_they_hold(batch_size: int) -> None:
    ScriptedBroker({**OF_A_PRODUCER, ApiKey.PRODUCE: lambda _: None})
    memory, record = 1 << 20, 100_000
    producer = Producer(HOST, buffer_memory=memory, batch_size=batch_size, max_block_ms=1_000)
    await producer.__aenter__()
    taken = 0
    with pytest.raises(QueueFull):
        while True:
            await producer.send_soon(TOPIC, bytes(record))
            taken += 1
    assert taken == -(-memory // record)
    await producer.close(0)


@virtually
async def test_a_record_that_waited_for_room_is_delivered_with_an_offset() -> None:
    broker = ScriptedBroker(OF_A_PRODUCER)
    broker.delays_s[ApiKey.PRODUCE] = ROUND_TRIP_S
    async with Producer(HOST, buffer_memory=1) as producer:
        both = await asyncio.gather(producer.send(TOPIC, b"a"), producer.send(TOPIC, b"b"))
        assert [type(each) for each in both] == [RecordMetadata] * 2
