"""aiokafka, unmodified, against the daemon."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from tests.support.daemon import Daemon


async def new_topic(daemon: Daemon, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    admin = AIOKafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(name, partitions, 1)])
    finally:
        await admin.close()
    return name


@asynccontextmanager
async def producing(daemon: Daemon, **options: object) -> AsyncIterator[AIOKafkaProducer]:
    producer = AIOKafkaProducer(bootstrap_servers=daemon.bootstrap, **options)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def read_all(daemon: Daemon, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Every value of partition 0 up to the end that this isolation level may reach."""
    partition = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=daemon.bootstrap, isolation_level=isolation, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            for records in (await consumer.getmany(timeout_ms=500)).values():
                values += [record.value for record in records]
        return values
    finally:
        await consumer.stop()


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_plain_records_are_read_back_in_order(daemon: Daemon, acks: int | str) -> None:
    topic = await new_topic(daemon)
    values = [b"%d" % number for number in range(200)]
    async with producing(daemon, acks=acks) as producer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
    assert await read_all(daemon, topic) == values


async def test_an_idempotent_producer_writes_each_record_once(daemon: Daemon) -> None:
    topic = await new_topic(daemon)
    values = [b"%d" % number for number in range(200)]
    async with producing(daemon, enable_idempotence=True) as producer:
        for value in values:
            await producer.send(topic, value)
    assert await read_all(daemon, topic) == values


async def test_only_committed_transactions_reach_read_committed(daemon: Daemon) -> None:
    topic = await new_topic(daemon)
    async with producing(daemon, transactional_id=f"t-{uuid.uuid4().hex[:8]}") as producer:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"one")
        with pytest.raises(ZeroDivisionError):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ZeroDivisionError
        async with producer.transaction():
            await producer.send_and_wait(topic, b"two")
    assert await read_all(daemon, topic) == [b"one", b"two"]
    assert await read_all(daemon, topic, "read_uncommitted") == [b"one", b"aborted", b"two"]


async def test_a_fenced_producer_cannot_commit(daemon: Daemon) -> None:
    topic, transactional_id = await new_topic(daemon), f"t-{uuid.uuid4().hex[:8]}"
    async with producing(daemon, transactional_id=transactional_id) as zombie:
        await zombie.begin_transaction()
        await zombie.send_and_wait(topic, b"zombie")
        async with producing(daemon, transactional_id=transactional_id) as successor:
            async with successor.transaction():
                await successor.send_and_wait(topic, b"successor")
        with pytest.raises(KafkaError):
            await zombie.commit_transaction()
    assert await read_all(daemon, topic) == [b"successor"]


async def test_a_group_goes_on_where_it_committed(daemon: Daemon) -> None:
    topic, group = await new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    async with producing(daemon) as producer:
        for number in range(5):
            await producer.send_and_wait(topic, b"%d" % number)

        async def consume(count: int) -> list[bytes]:
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=daemon.bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                values = [(await consumer.getone()).value for _ in range(count)]
                await consumer.commit()
                return values
            finally:
                await consumer.stop()

        assert await consume(3) == [b"0", b"1", b"2"]
        assert await consume(2) == [b"3", b"4"]
