"""Our client when the broker dies, freezes or stays away: nothing is lost, nothing is doubled, nothing hangs."""

import asyncio
import signal

import pytest

from oncelog.client import Consumer, Producer, ProducerOptions, TopicPartition
from oncelog.client.values.errors import AbortableError, CommitUnknown, ConnectionLost, DeliveryTimeout, RequestTimedOut
from oncelog.client.values.records import IsolationLevel
from tests.clients.topics import new_topic, until_stable
from tests.conftest import Start
from tests.support.patience import GIVES_UP_MS, PATIENCE_MS, PATIENCE_S, SHORT_OF_DEFAULTS_S
from tests.support.processes.daemon import Daemon


async def read_all(
    daemon: Daemon, topic: str, partition: int = 0, isolation_level: IsolationLevel = "read_committed"
) -> list[bytes | None]:
    place = TopicPartition(topic, partition)
    async with Consumer(
        bootstrap_servers=daemon.bootstrap, isolation_level=isolation_level, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign([place])
        await until_stable(daemon.bootstrap, place)
        end = (await consumer.end_offsets([place]))[place]
        values: list[bytes | None] = []
        while await consumer.position(place) < end:
            values += [record.value for record in await consumer.poll(20_000)]
        return values


@pytest.fixture
def daemon(start_daemon: Start) -> Daemon:
    """One that a test may kill."""
    return start_daemon("group.initial.rebalance.delay.ms=0")


async def revive(daemon: Daemon) -> None:
    """Kill -9 and start again, while the loop keeps running."""
    daemon.kill()
    await asyncio.to_thread(daemon.start)


@pytest.mark.parametrize("transactional_id", [None, "transactional"])
async def test_every_record_is_written_once_and_in_order_across_a_kill(
    daemon: Daemon, transactional_id: str | None
) -> None:
    topic = await new_topic(daemon.bootstrap, 3)
    deliveries = []
    # A broker that does not come up again fails the test at once.
    async with (
        asyncio.TaskGroup() as tasks,
        Producer(daemon.bootstrap, transactional_id=transactional_id, batch_size=1000) as producer,
    ):
        sender = producer.transaction() if transactional_id else producer
        if sender is not producer:
            await sender.__aenter__()
        for number in range(6000):
            deliveries.append(await sender.send_soon(topic, b"%d" % number, partition=number % 3))
            if number == 3000:
                await deliveries[600]
                tasks.create_task(revive(daemon))
        if sender is not producer:
            await sender.__aexit__(None, None, None)
        offsets = [(await each).offset for each in deliveries]
    for index in range(3):
        assert offsets[index::3] == list(range(2000))
        assert await read_all(daemon, topic, index) == [b"%d" % number for number in range(index, 6000, 3)]


async def test_a_transaction_that_was_left_open_is_aborted_by_the_next_producer_after_a_kill(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    async with Producer(daemon.bootstrap, transactional_id="x", linger_ms=0) as first:
        transaction = first.transaction()
        await transaction.__aenter__()
        await transaction.send(topic, b"left open")
        await revive(daemon)
        async with Producer(daemon.bootstrap, transactional_id="x") as second:
            async with second.transaction() as other:
                await other.send_soon(topic, b"second")
    assert await read_all(daemon, topic) == [b"second"]
    assert await read_all(daemon, topic, isolation_level="read_uncommitted") == [b"left open", b"second"]


async def test_a_commit_that_got_no_answer_is_unknown_until_it_is_asked_for_again(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    async with Producer(daemon.bootstrap, transactional_id="x", linger_ms=0, max_block_ms=GIVES_UP_MS) as producer:
        async with producer.transaction() as transaction:
            await transaction.send(topic, b"x")
            daemon.process.send_signal(signal.SIGSTOP)
            try:
                with pytest.raises(CommitUnknown):
                    await transaction.commit()
            finally:
                daemon.process.send_signal(signal.SIGCONT)
            assert transaction.state == "committing"
            await transaction.commit()
        assert transaction.state == "committed"
        async with producer.transaction() as transaction:
            await transaction.send_soon(topic, b"y")
    assert await read_all(daemon, topic) == [b"x", b"y"]


async def test_a_commit_that_could_not_be_sent_is_no_commit(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    async with Producer(daemon.bootstrap, transactional_id="x", linger_ms=0, max_block_ms=GIVES_UP_MS) as producer:
        with pytest.raises(AbortableError) as refused:
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"x")
                daemon.kill()
                async with asyncio.timeout(PATIENCE_S):
                    # The end of the connection is seen only when the loop turns.
                    while producer._cluster.connections._transports and any(
                        t.is_open for t in producer._cluster.connections._transports.values()
                    ):
                        await asyncio.sleep(0)
        assert any("abort" in note for note in refused.value.__notes__)
        daemon.start()
        async with producer.transaction() as transaction:
            await transaction.send_soon(topic, b"y")
    assert await read_all(daemon, topic) == [b"y"]


async def test_nothing_waits_longer_than_its_deadline_for_a_broker_that_is_gone(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    async with asyncio.timeout(SHORT_OF_DEFAULTS_S):
        options = ProducerOptions(delivery_timeout_ms=GIVES_UP_MS, max_block_ms=GIVES_UP_MS, linger_ms=0)
        async with Producer(daemon.bootstrap, **options) as producer:
            await producer.send(topic, b"x")
            daemon.kill()
            with pytest.raises(DeliveryTimeout):
                await (await producer.send_soon(topic, b"y"))
            with pytest.raises((RequestTimedOut, ConnectionLost)):
                await producer.send("unknown", b"z")
        with pytest.raises(RequestTimedOut):
            async with Producer(daemon.bootstrap, max_block_ms=300):
                pass
        with pytest.raises(RequestTimedOut):
            async with Consumer(bootstrap_servers=daemon.bootstrap, default_api_timeout_ms=300):
                pass


async def test_an_idempotent_producer_continues_after_records_that_were_given_up(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    async with Producer(daemon.bootstrap, delivery_timeout_ms=GIVES_UP_MS, linger_ms=0) as producer:
        await producer.send(topic, b"0")
        daemon.process.send_signal(signal.SIGSTOP)
        given_up = [await producer.send_soon(topic, b"given up") for _ in range(2)]
        for each in given_up:
            with pytest.raises(DeliveryTimeout):
                await each
        daemon.process.send_signal(signal.SIGCONT)
        await producer.send(topic, b"1")
    values = await read_all(daemon, topic)
    assert [value for value in values if value != b"given up"] == [b"0", b"1"]
    assert values.count(b"given up") <= 2


async def test_a_consumer_and_its_group_continue_after_a_kill(daemon: Daemon) -> None:
    topic = await new_topic(daemon.bootstrap)
    place = TopicPartition(topic, 0)
    async with (
        Producer(daemon.bootstrap, linger_ms=0) as producer,
        Consumer(topic, bootstrap_servers=daemon.bootstrap, group_id="g", auto_offset_reset="earliest") as member,
    ):
        await producer.send(topic, b"before")
        assert [record.value for record in await member.poll(PATIENCE_MS)] == [b"before"]
        await member.commit_sync()
        await revive(daemon)
        await producer.send(topic, b"after")
        assert [record.value for record in await member.poll(PATIENCE_MS)] == [b"after"]
        await member.commit_sync()
        assert (await member.committed(place))[place].offset == 2


async def test_a_cancelled_program_stops_soon_though_its_abort_is_not_answered(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.client.producing.transaction._CANCELLED_PATIENCE_S", 0.2)
    topic = await new_topic(daemon.bootstrap)
    async with (
        asyncio.timeout(SHORT_OF_DEFAULTS_S),
        Producer(daemon.bootstrap, transactional_id="x", linger_ms=0) as producer,
    ):
        written = asyncio.Event()

        async def work() -> None:
            async with producer.transaction() as transaction:
                await transaction.send(topic, b"x")
                written.set()
                await asyncio.Event().wait()

        task = asyncio.ensure_future(work())
        await written.wait()
        daemon.kill()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await producer.close(timeout_ms=100)
