"""aiokafka, unmodified, against the daemon."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError

from tests.support.processes.daemon import Daemon


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


async def end_of(daemon: Daemon, partition: TopicPartition) -> int:
    """The end of the log for a read_uncommitted reader, whether markers are written already or, as in Kafka, follow."""
    consumer = AIOKafkaConsumer(bootstrap_servers=daemon.bootstrap)
    await consumer.start()
    try:
        return (await consumer.end_offsets([partition]))[partition]
    finally:
        await consumer.stop()


async def read_all(daemon: Daemon, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """Every value of partition 0 that this isolation level is given; no transaction may be left open."""
    partition = TopicPartition(topic, 0)
    end = await end_of(daemon, partition)
    consumer = AIOKafkaConsumer(bootstrap_servers=daemon.bootstrap, isolation_level=isolation, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
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


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_compressed_batches_are_read_back_in_order(daemon: Daemon, codec: str) -> None:
    topic = await new_topic(daemon)
    values = [b"the same text again and again %d" % number for number in range(500)]
    async with producing(daemon, acks="all", compression_type=codec, linger_ms=20) as producer:
        for value in values:
            await producer.send(topic, value, key=b"key", headers=[("codec", codec.encode())])
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


async def test_a_group_continues_where_it_committed(daemon: Daemon) -> None:
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


@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_are_committed_with_the_transaction_or_not_at_all(daemon: Daemon, commit: bool) -> None:
    source, sink, group = await new_topic(daemon), await new_topic(daemon), f"group-{uuid.uuid4().hex[:8]}"
    async with producing(daemon) as producer:
        for value in (b"a", b"b", b"c"):
            await producer.send_and_wait(source, value)
    partition = TopicPartition(source, 0)
    consumer = AIOKafkaConsumer(
        source,
        bootstrap_servers=daemon.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    async with producing(daemon, transactional_id=f"t-{uuid.uuid4().hex[:8]}") as producer:
        await producer.begin_transaction()
        for _ in range(3):
            await producer.send_and_wait(sink, (await consumer.getone()).value.upper())
        await producer.send_offsets_to_transaction({partition: await consumer.position(partition)}, group)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
    assert await consumer.committed(partition) == (3 if commit else None)
    await consumer.stop()
    assert await read_all(daemon, sink) == ([b"A", b"B", b"C"] if commit else [])


async def test_two_members_share_the_partitions_and_one_takes_over(daemon: Daemon) -> None:
    topic, group = await new_topic(daemon, partitions=4), f"group-{uuid.uuid4().hex[:8]}"
    options = {"bootstrap_servers": daemon.bootstrap, "group_id": group, "heartbeat_interval_ms": 200}
    first, second = AIOKafkaConsumer(topic, **options), AIOKafkaConsumer(topic, **options)
    await first.start()
    await second.start()

    async def poll_until(members: list[AIOKafkaConsumer], sizes: list[int]) -> set[int]:
        for _ in range(300):
            for member in members:
                await member.getmany(timeout_ms=50)
            if [len(member.assignment()) for member in members] == sizes:
                break
        assert [len(member.assignment()) for member in members] == sizes
        return {partition.partition for member in members for partition in member.assignment()}

    assert await poll_until([first, second], [2, 2]) == {0, 1, 2, 3}
    await second.stop()
    assert await poll_until([first], [4]) == {0, 1, 2, 3}
    await first.stop()


async def test_admin_makes_changes_describes_and_deletes(daemon: Daemon) -> None:
    topic = await new_topic(daemon)
    admin = AIOKafkaAdminClient(bootstrap_servers=daemon.bootstrap)
    await admin.start()
    try:
        await admin.create_partitions({topic: NewPartitions(3)})
        (described,) = await admin.describe_topics([topic])
        assert len(described["partitions"]) == 3
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": "65536"})
        await admin.alter_configs([resource])
        assert "65536" in str(await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)]))
        async with producing(daemon, acks="all") as producer:
            for _ in range(10):
                await producer.send_and_wait(topic, b"value", partition=0)
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(4)})
        assert len(await read_all(daemon, topic)) == 6
        await admin.delete_topics([topic])
        assert topic not in await admin.list_topics()
    finally:
        await admin.close()
