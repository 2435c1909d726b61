"""Objects through a broker, and a poison record: it stops no consumer for good and is lost for none."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest

from oncelog import (
    INT64,
    JSON,
    STRING,
    Admin,
    Consumer,
    DeserializationError,
    NewTopic,
    Producer,
    TopicPartition,
    TransactionalSession,
)
from tests.clients.topics import new_topic
from tests.support.patience import PATIENCE_MS
from tests.support.processes.daemon import Daemon

POISON = b"{"


@pytest.fixture
async def topic(daemon: Daemon) -> AsyncIterator[str]:
    """Two partitions; in the first: 0, poison, 2."""
    name = await new_topic(daemon.bootstrap, 2)
    async with Producer(daemon.bootstrap) as producer:
        for value in (b"0", POISON, b"2"):
            await producer.send_soon(name, value, partition=0)
        await producer.send_soon(name, b"10", partition=1)
        await producer.flush()
    yield name


async def test_objects_are_written_and_read_by_their_serializers(daemon: Daemon) -> None:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    async with Producer(daemon.bootstrap, key_serializer=STRING, value_serializer=JSON) as producer:
        await producer.send(name, {"total": 42}, key="customer")
        await producer.send(name, None, key="customer")
    async with Consumer(
        name,
        bootstrap_servers=daemon.bootstrap,
        auto_offset_reset="earliest",
        key_deserializer=STRING,
        value_deserializer=JSON,
    ) as consumer:
        records = [*await consumer.poll(PATIENCE_MS), *await consumer.poll(0)]
    assert [(each.key, each.value) for each in records] == [("customer", {"total": 42}), ("customer", None)]


async def test_a_poll_returns_what_is_before_a_poison_record_then_raises_it_until_it_is_skipped(
    daemon: Daemon, topic: str
) -> None:
    place = TopicPartition(topic, 0)
    async with Consumer(
        bootstrap_servers=daemon.bootstrap, group_id=topic, auto_offset_reset="earliest", value_deserializer=JSON
    ) as consumer:
        consumer.assign([place])
        assert [each.value for each in await consumer.poll(PATIENCE_MS)] == [0]
        for _ in range(2):
            with pytest.raises(DeserializationError) as poison:
                await consumer.poll(PATIENCE_MS)
        assert (poison.value.record.value, poison.value.offset) == (POISON, 1)
        await consumer.commit_sync()
        assert (await consumer.committed(place))[place].offset == 1, "what was not returned is not committed"
        consumer.seek(poison.value.topic_partition, poison.value.offset + 1)
        assert [each.value for each in await consumer.poll(PATIENCE_MS)] == [2]
        await consumer.commit_sync()
        assert (await consumer.committed(place))[place].offset == 3


async def test_polling_on_without_a_seek_starves_no_other_task(daemon: Daemon, topic: str) -> None:
    async with Consumer(
        topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", value_deserializer=INT64
    ) as consumer:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(turn())
        errors = 0
        while errors < 50:
            try:
                await consumer.poll(20_000)
            except DeserializationError:
                errors, turns = errors + 1, turns if errors else 0
        other.cancel()
        assert turns >= 49


async def test_the_iterator_continues_behind_a_poison_record(daemon: Daemon, topic: str) -> None:
    found = []
    async with Consumer(
        topic, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", value_deserializer=JSON
    ) as consumer:
        while len(found) < 3:
            try:
                async for record in consumer:
                    found.append(record.value)
                    if len(found) == 3:
                        break
            except DeserializationError as error:
                assert await consumer.position(error.topic_partition) == 1
                consumer.seek(error.topic_partition, error.offset + 1)
    assert sorted(found) == [0, 2, 10]


async def test_a_batch_ends_before_a_poison_record_and_so_do_its_offsets(daemon: Daemon, topic: str) -> None:
    place = TopicPartition(topic, 0)
    async with Consumer(bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", value_deserializer=JSON) as (
        consumer
    ):
        consumer.assign([place])
        batch = await consumer.next_batch(max_wait_ms=1)
        assert ([each.value for each in batch], batch.next_offsets[place].offset) == ([0], 1)
        with pytest.raises(DeserializationError):
            await consumer.next_batch()


async def test_a_session_continues_behind_a_poison_record_and_commits_each_result_once(
    daemon: Daemon, topic: str
) -> None:
    out = f"{topic}-out"
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic(out, 1, 1))
    done = 0
    async with TransactionalSession(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        value_deserializer=JSON,
        key_serializer=STRING,
        value_serializer=INT64,
    ) as session:
        while done < 3:
            try:
                async for batch in session:
                    async with batch:
                        for record in batch:
                            await batch.send_soon(out, record.value + 1, key=f"of {record.offset}")
                    done += len(batch)
                    if done == 3:
                        break
            except DeserializationError as error:
                session.consumer.seek(error.topic_partition, error.offset + 1)
    async with Consumer(
        out, bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest", value_deserializer=INT64
    ) as consumer:
        values = []
        while len(values) < 3:
            values += [each.value for each in await consumer.poll(10_000)]
    assert sorted(values) == [1, 3, 11]
