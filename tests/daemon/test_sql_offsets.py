"""Offsets in a database's own transactions, through rebalances and failures: PostgreSQL by each library, and SQLite."""

import asyncio
import random
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog import Admin, Consumer, NewTopic, NoOffsetForPartition, Producer, TopicPartition, sync
from oncelog.client.values.errors import ConfigError, InvalidState
from oncelog.sql_offsets import PositionMoved, SqlBatch, SqlOffsets
from tests.conftest import Start
from tests.daemon.test_client_page import scripts
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres, shared
from tests.support.postgres.sql_ways import ASYNC_WAYS, BLOCKING_WAYS, BlockingWay, Way, execute, now
from tests.support.processes.daemon import Daemon

PAGE = Path(__file__).parents[2] / "docs" / "clients" / "client-sql-offsets.md"
COUNT = 60
"""Records of each of the two partitions."""
EXPECTED = {partition: [str(number) for number in range(COUNT)] for partition in range(2)}


class Failed(Exception):
    """Something of the program failed in its transaction."""


@pytest.fixture(scope="session")
def postgres() -> Postgres:
    return shared(is_durable=False)


@pytest.fixture(params=ASYNC_WAYS)
async def way(request: pytest.FixtureRequest, postgres: Postgres) -> AsyncIterator[Way]:
    async for each in ASYNC_WAYS[request.param](postgres.dsn):
        yield each


@pytest.fixture(params=BLOCKING_WAYS)
def blocking_way(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BlockingWay]:
    place = str(tmp_path / "db") if request.param == "sqlite3" else request.getfixturevalue("postgres").dsn
    yield from BLOCKING_WAYS[request.param](place)


async def new_topic(daemon: Daemon) -> str:
    """A topic of two partitions with `COUNT` records each."""
    name = f"topic_{uuid.uuid4().hex[:8]}"
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic(name, 2, 1))
    await produce(daemon, name, range(COUNT))
    return name


async def produce(daemon: Daemon, topic: str, numbers: range) -> None:
    """Write each number to both partitions, in transactions that are committed; with some between that are aborted."""
    async with Producer(daemon.bootstrap, transactional_id=topic) as producer:
        for first in numbers[::7]:
            with suppress(Failed):
                async with producer.transaction() as transaction:
                    for partition in range(2):
                        await transaction.send_soon(topic, b"aborted", partition=partition)
                    raise Failed
            async with producer.transaction() as transaction:
                for number in range(first, min(first + 7, numbers.stop)):
                    for partition in range(2):
                        await transaction.send_soon(topic, b"%d" % number, partition=partition)


def offsets_of(topic: str, connect: Any) -> SqlOffsets:
    return SqlOffsets(topic, connect, table=f"offsets_of_{topic}")


async def make_tables(topic: str, way: Way | BlockingWay) -> None:
    await offsets_of(topic, way.connect).create()
    statement = f"create table {topic} (number bigserial primary key, partition_index integer, value varchar(20))"
    if isinstance(way, Way):
        async with way.transaction() as connection:
            await execute(connection, statement)
    else:
        with way.transaction() as connection:
            # SQLite counts the keys of a table by itself only if they are of this type.
            await execute(
                connection, statement.replace("bigserial", "integer") if _is_sqlite(connection) else statement
            )


def _is_sqlite(connection: object) -> bool:
    return type(connection).__module__ == "sqlite3"


async def write(connection: object, topic: str, batch: Any) -> None:
    for record in batch:
        statement = f"insert into {topic} (partition_index, value) values ({{}}, {{}})"
        await execute(connection, statement, record.partition, record.value.decode())


async def results(connection: object, topic: str) -> dict[int, list[str]]:
    rows = await execute(connection, f"select partition_index, value from {topic} order by number")
    return {partition: [value for found, value in rows if found == partition] for partition in range(2)}


# --- exactly once -----------------------------------------------------------------------------------------------------


class Instance:
    """One of the program, until it is killed; its transactions fail now and then, before their commit or after it."""

    def __init__(self, daemon: Daemon, topic: str, way: Way, seed: int, **options: Any) -> None:
        self._topic = topic
        self._way = way
        self._chance = random.Random(seed)
        self._offsets = offsets_of(topic, way.connect)
        self.consumer = Consumer(
            topic,
            bootstrap_servers=daemon.bootstrap,
            fetch_max_wait_ms=50,  # what waits at the end of the log holds up the others' requests
            **self._offsets.options,
            **options,
        )
        self.has_partitions = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        async with self.consumer:
            async for batch in self._offsets.batches(self.consumer, max_records=self._chance.randint(1, 10)):
                self.has_partitions.set()
                with suppress(Failed):
                    await self._process(batch)

    async def _process(self, batch: SqlBatch) -> None:
        async with batch:
            async with self._way.transaction() as connection:
                await batch.advance(connection)
                await write(connection, self._topic, batch)
                if self._chance.random() < 0.15:
                    raise Failed
            if self._chance.random() < 0.15:
                raise Failed

    async def kill(self) -> None:
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


async def come_and_go(daemon: Daemon, way: Way, **options: Any) -> None:
    """Run an instance while records are written; a second one joins it, and a third replaces it."""
    topic = await new_topic(daemon)
    await make_tables(topic, way)
    count = COUNT

    async def write_more(*instances: Instance) -> None:
        """Write records until each of these instances has read some."""
        nonlocal count
        while not all(each.has_partitions.is_set() for each in instances):
            await produce(daemon, topic, range(count, count + 14))
            count += 14
            waiting = [asyncio.create_task(each.has_partitions.wait()) for each in instances]
            await asyncio.wait(waiting, timeout=0.2)

    async with asyncio.timeout(PATIENCE_S):
        first = Instance(daemon, topic, way, 1, **options)
        await write_more(first)
        second = Instance(daemon, topic, way, 2, **options)
        await write_more(second)
        await first.kill()
        third = Instance(daemon, topic, way, 3, **options)
        await write_more(third)
        expected = {partition: [str(number) for number in range(count)] for partition in range(2)}
        found: dict[int, list[str]] = {}
        while sum(map(len, found.values())) < 2 * count:
            assert not (second.task.done() or third.task.done())
            async with way.transaction() as connection:
                found = await results(connection, topic)
        await second.kill()
        await third.kill()
        async with way.transaction() as connection:
            assert await results(connection, topic) == expected


@pytest.mark.sampled(4)
async def test_each_record_is_written_once_by_instances_that_come_and_go(daemon: Daemon, way: Way) -> None:
    await come_and_go(daemon, way, heartbeat_interval_ms=50)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "options",
    [
        {"group_protocol": "consumer"},
        {"heartbeat_interval_ms": 50, "partition_assignment_strategy": ["cooperative-sticky"]},
    ],
    ids=["KIP-848", "cooperative"],
)
async def test_so_it_is_where_members_keep_their_partitions_in_a_rebalance(
    start_daemon: Start, postgres: Postgres, options: Mapping[str, Any]
) -> None:
    daemon = start_daemon(
        "group.initial.rebalance.delay.ms=0",
        "group.consumer.min.heartbeat.interval.ms=50",
        "group.consumer.heartbeat.interval.ms=50",
    )
    async for way in ASYNC_WAYS["psycopg"](postgres.dsn):
        await come_and_go(daemon, way, **options)


async def test_each_record_is_written_once_by_a_blocking_program(daemon: Daemon, blocking_way: BlockingWay) -> None:
    topic = await new_topic(daemon)
    await make_tables(topic, blocking_way)

    def run_blocking(expected: dict[int, list[str]]) -> None:
        chance = random.Random(1)
        offsets = offsets_of(topic, blocking_way.connect)
        options = offsets.options
        with sync.Consumer(topic, bootstrap_servers=daemon.bootstrap, fetch_max_wait_ms=50, **options) as consumer:
            for batch in offsets.batches(consumer, max_records=7):
                with suppress(Failed), batch, blocking_way.transaction() as connection:
                    batch.advance(connection)
                    now(write(connection, topic, batch))
                    if chance.random() < 0.2:
                        raise Failed
                with blocking_way.transaction() as connection:
                    if now(results(connection, topic)) == expected:
                        return

    await asyncio.to_thread(run_blocking, EXPECTED)
    async with Producer(daemon.bootstrap) as producer:
        await producer.send(topic, b"one more", partition=0)
    await asyncio.to_thread(run_blocking, EXPECTED | {0: [*EXPECTED[0], "one more"]})


@pytest.mark.sampled(3)
async def test_an_instance_waits_for_another_one_with_the_same_records_and_is_rolled_back(
    daemon: Daemon, way: Way
) -> None:
    topic = await new_topic(daemon)
    await make_tables(topic, way)
    place = TopicPartition(topic, 0)

    async def batches(offsets: SqlOffsets, consumer: Consumer) -> AsyncIterator[SqlBatch]:
        consumer.assign([place])
        return offsets.batches(consumer, max_records=5)

    async def process(batch: SqlBatch) -> None:
        async with batch, way.transaction() as connection:
            await batch.advance(connection)
            await write(connection, topic, batch)

    fast, slow = offsets_of(topic, way.connect), offsets_of(topic, way.connect)
    async with (
        Consumer(bootstrap_servers=daemon.bootstrap, **fast.options) as consumer,
        Consumer(bootstrap_servers=daemon.bootstrap, **slow.options) as other,
    ):
        its, others = await batches(fast, consumer), await batches(slow, other)
        first, same = await anext(its), await anext(others)
        assert list(first) == list(same)
        async with first, way.transaction() as connection:
            await first.advance(connection)
            waiting = asyncio.create_task(process(same))
            await asyncio.wait((waiting,), timeout=0.2)
            assert not waiting.done()
            await write(connection, topic, first)
        await waiting
        assert first.committed and not same.committed and isinstance(same.error, PositionMoved)
        async with way.transaction() as connection:
            assert (await results(connection, topic))[0] == EXPECTED[0][:5]
        after = await anext(others)
        assert after[0].value == b"5"


async def test_instances_that_make_the_table_at_the_same_time_all_succeed(postgres: Postgres) -> None:
    async for way in ASYNC_WAYS["asyncpg"](postgres.dsn):
        await asyncio.gather(*(SqlOffsets("g", way.connect, table="made_by_all").create() for _ in range(8)))


@pytest.mark.parametrize("script", scripts(PAGE), ids=["asyncpg", "sqlite3"])
def test_every_script_of_the_page_runs_as_it_stands(
    daemon: Daemon, request: pytest.FixtureRequest, tmp_path: Path, script: str
) -> None:
    if "asyncpg" in script:
        pytest.importorskip("asyncpg", reason="asyncpg is not installed")
        script = script.replace("postgresql://localhost/app", request.getfixturevalue("postgres").dsn)
    with sync.Producer(daemon.bootstrap) as producer:
        producer.send("orders", b"41")  # what it reads
    text = script.replace("localhost:9092", daemon.bootstrap)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S
        )
        assert done.returncode == 0, done.stderr
        with sync.Producer(daemon.bootstrap) as producer:
            producer.send("orders", b"42")


# --- what is an error -------------------------------------------------------------------------------------------------


async def batch_of(offsets: SqlOffsets, consumer: Any, topic: str) -> SqlBatch:
    consumer.assign([TopicPartition(topic, 0)])
    return await anext(offsets.batches(consumer))


async def test_a_connection_that_commits_each_statement_is_refused(daemon: Daemon, way: Way) -> None:
    topic = await new_topic(daemon)
    await make_tables(topic, way)
    offsets = offsets_of(topic, way.connect)
    async with Consumer(bootstrap_servers=daemon.bootstrap, **offsets.options) as consumer:
        batch = await batch_of(offsets, consumer, topic)
        with pytest.raises(InvalidState, match=r"commits each statement by itself: .*async with "):
            async with batch, way.alone() as connection:
                await batch.advance(connection)
        async with way.transaction() as connection:
            ((offset,),) = await execute(connection, f"select max(next_offset) from offsets_of_{topic}")
        assert offset == 0


async def test_a_blocking_connection_that_commits_each_statement_is_refused(
    daemon: Daemon, blocking_way: BlockingWay
) -> None:
    topic = await new_topic(daemon)
    await make_tables(topic, blocking_way)
    offsets = offsets_of(topic, blocking_way.connect)
    async with Consumer(bootstrap_servers=daemon.bootstrap, **offsets.options) as consumer:
        batch = await batch_of(offsets, consumer, topic)
        with pytest.raises(InvalidState, match="commits each statement by itself"):
            async with batch:
                with blocking_way.alone() as connection:
                    await batch.advance(connection)


async def test_an_asynchronous_connection_is_refused_in_a_blocking_program(
    daemon: Daemon, way: Way, tmp_path: Path
) -> None:
    (blocking_way,) = BLOCKING_WAYS["sqlite3"](str(tmp_path / "db"))
    topic = await new_topic(daemon)
    await make_tables(topic, blocking_way)
    async with way.transaction() as connection:

        def run_blocking() -> None:
            offsets = offsets_of(topic, blocking_way.connect)
            with sync.Consumer(topic, bootstrap_servers=daemon.bootstrap, **offsets.options) as consumer:
                with next(offsets.batches(consumer)) as batch:
                    batch.advance(connection)

        with pytest.raises(ConfigError, match="asynchronous connection"):
            await asyncio.to_thread(run_blocking)


async def test_records_that_kafka_deleted_unread_and_a_topic_that_was_made_again_are_errors(
    daemon: Daemon, tmp_path: Path
) -> None:
    (way,) = BLOCKING_WAYS["sqlite3"](str(tmp_path / "db"))
    topic = await new_topic(daemon)
    await make_tables(topic, way)

    async def read() -> list[bytes | None]:
        offsets = offsets_of(topic, way.connect)
        async with Consumer(topic, bootstrap_servers=daemon.bootstrap, **offsets.options) as consumer:
            async for batch in offsets.batches(consumer, max_records=4 * COUNT, max_wait_ms=100):
                async with batch:
                    with way.transaction() as connection:
                        await batch.advance(connection)
                return [each.value for each in batch]
        raise AssertionError("unreachable")

    async def follow(error: NoOffsetForPartition) -> None:
        with way.transaction() as connection:
            await execute(connection, error.hint[error.hint.index("update ") :])

    async with Admin(daemon.bootstrap) as admin:
        with way.transaction() as connection:
            for partition in range(2):
                statement = f"insert into offsets_of_{topic} values ({{}}, {{}}, {{}}, 0)"
                await execute(connection, statement, topic, topic, partition)
        await admin.delete_records({TopicPartition(topic, 1): 10})
        with pytest.raises(NoOffsetForPartition, match=r"_.*-1: offsets 0 to 9 were deleted before") as raised:
            await read()
        await follow(raised.value)
        assert len(await read()) > COUNT
        await admin.delete_topics(topic)
        await admin.create_topics(NewTopic(topic, 2, 1))
        for _ in range(2):
            with pytest.raises(NoOffsetForPartition, match=r"the log ends at 0 .*the topic was made again") as raised:
                await read()
            await follow(raised.value)
    async with Producer(daemon.bootstrap) as producer:
        await producer.send(topic, b"new")
    assert await read() == [b"new"]
