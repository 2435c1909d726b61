"""Offsets in a database's transactions, with our broker and with Apache Kafka: each record is there once, and a
position that the log does not have is an error."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog.client import Admin, Consumer, NewTopic, NoOffsetForPartition, Producer, TopicPartition
from oncelog.sql_offsets import SqlOffsets
from tests.clients.topics import new_topic
from tests.interop.test_client_against_kafka_session import COUNT, scene
from tests.support.kafka.server import ON_BOTH, serving
from tests.support.postgres.sql_ways import BlockingWay, execute, sqlite


@pytest.fixture(scope="module", params=ON_BOTH)
def bootstrap(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(request.param, tmp_path_factory.mktemp(request.param)) as bootstrap:
        yield bootstrap


@pytest.fixture
async def way(tmp_path: Path) -> BlockingWay:
    (way,) = sqlite(str(tmp_path / "results.db"))
    await SqlOffsets("group", way.connect).create()
    with way.transaction() as connection:
        await execute(connection, "create table results (value text)")
    return way


async def read(bootstrap: str, topic: str, way: BlockingWay, count: int) -> list[str]:
    """Let every second transaction fail until so many records are there, and return them."""
    offsets = SqlOffsets(topic, way.connect)
    found: list[str] = []
    async with Consumer(topic, bootstrap_servers=bootstrap, fetch_max_wait_ms=50, **offsets.options) as consumer:
        number = 0
        async for batch in offsets.batches(consumer, max_records=4):
            number += 1
            with suppress(ZeroDivisionError):
                async with batch:
                    with way.transaction() as connection:
                        await batch.advance(connection)
                        for record in batch:
                            value = (record.value or b"").decode()
                            await execute(connection, "insert into results values ({})", value)
                        1 / (number % 2)
            with way.transaction() as connection:
                found = [value for (value,) in await execute(connection, "select value from results")]
            if len(found) >= count:
                return found
    raise AssertionError("batches are endless")


async def follow_the_hint(way: BlockingWay, error: NoOffsetForPartition) -> None:
    with way.transaction() as connection:
        await execute(connection, error.hint[error.hint.index("update ") :])


async def test_each_record_is_there_once(bootstrap: str, way: BlockingWay) -> None:
    topic, _ = await scene(bootstrap)
    assert sorted(map(int, await read(bootstrap, topic, way, COUNT))) == list(range(COUNT))
    async with Producer(bootstrap) as producer:
        await producer.send(topic, b"%d" % COUNT, partition=1)
    assert sorted(map(int, await read(bootstrap, topic, way, COUNT + 1))) == list(range(COUNT + 1))


async def test_a_position_that_the_log_does_not_have_is_an_error(bootstrap: str, way: BlockingWay) -> None:
    topic = await new_topic(bootstrap)
    async with Producer(bootstrap) as producer:
        for number in range(5):
            await producer.send(topic, b"%d" % number)
    assert len(await read(bootstrap, topic, way, 4)) == 4
    async with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        for number in range(5, 9):
            await producer.send(topic, b"%d" % number)
        await admin.delete_records({TopicPartition(topic, 0): 7})
        with pytest.raises(NoOffsetForPartition, match="-0: offsets 4 to 6 were deleted before they were") as raised:
            await read(bootstrap, topic, way, 6)
        await follow_the_hint(way, raised.value)
        assert await read(bootstrap, topic, way, 6) == ["0", "1", "2", "3", "7", "8"]
        await admin.delete_topics(topic)
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, 1, 1))
    async with Producer(bootstrap) as producer:
        await producer.send(topic, b"new")
    with pytest.raises(NoOffsetForPartition, match="processed it up to 9, and the log ends at 1") as raised:
        await read(bootstrap, topic, way, 7)
    await follow_the_hint(way, raised.value)
    assert (await read(bootstrap, topic, way, 7))[-1] == "new"
