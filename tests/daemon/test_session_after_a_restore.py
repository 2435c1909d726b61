"""A session outlasts the past of its broker: the offsets of its group went back with all else, to an earlier time."""

import asyncio
import shutil
import sys
from pathlib import Path

import pytest

from oncelog.client import Admin, Consumer, Producer, ProducerFenced, TopicPartition, TransactionalSession
from tests.conftest import Start
from tests.daemon.test_client_session import COUNT, fill
from tests.support.foreign.confluent import new_topic
from tests.support.processes.daemon import LOOKS_AT_FILES, Daemon

pytestmark = LOOKS_AT_FILES
SOURCE, TARGET = TopicPartition("in", 0), TopicPartition("out", 0)


class Past:
    """A backup of a daemon, which is brought back."""

    def __init__(self, daemon: Daemon, directory: Path) -> None:
        self._daemon = daemon
        self._directory = directory

    async def keep(self) -> None:
        await self._run("backup", self._directory)

    async def bring_back(self) -> None:
        self._daemon.kill()
        shutil.rmtree(self._daemon.data_dir)
        await self._run("restore", self._directory)
        await asyncio.to_thread(self._daemon.start)

    async def _run(self, *words: object) -> None:
        command = (sys.executable, "-m", "oncelog", *map(str, words), "--data-dir", str(self._daemon.data_dir))
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
        assert await process.wait() == 0


async def copies(daemon: Daemon) -> list[bytes | None]:
    """What is committed in the end."""
    async with Consumer(bootstrap_servers=daemon.bootstrap) as consumer:
        consumer.assign([TARGET])
        consumer.seek(TARGET, 0)
        end = (await consumer.end_offsets([TARGET]))[TARGET]
        found: list[bytes | None] = []
        while await consumer.position(TARGET) < end:
            found += [each.value for each in await consumer.poll(1_000)]
        return found


@pytest.mark.parametrize(
    ("version", "is_open", "lost_count"),
    [
        pytest.param(2, True, 1, id="the abort gives the epoch that the lost commit had given"),
        pytest.param(1, False, 2, id="commits give no epochs"),
        pytest.param(2, False, 2, id="the epoch is unknown, and another session follows"),
        pytest.param(2, True, 0, id="nothing is lost"),
    ],
)
async def test_batches_whose_commits_are_lost_come_again(
    start_daemon: Start, tmp_path: Path, version: int, is_open: bool, lost_count: int
) -> None:
    """Whether the session continues or is fenced for good and has one after it: each record is copied once."""
    daemon = start_daemon(f"oncelog.feature.transaction.version={version}")
    await fill(daemon)
    past, begun, done = Past(daemon, tmp_path / "backup"), 0, 0
    while done < COUNT:
        try:
            async with TransactionalSession(
                "in", bootstrap_servers=daemon.bootstrap, group_id="copiers", transactional_id="copier", max_records=3
            ) as session:
                async for batch in session:
                    begun += 1
                    async with batch:
                        if begun == 2 and not is_open:
                            await past.keep()
                        for record in batch:
                            await batch.send("out", record.value)
                        if begun == 2 and is_open:
                            await past.keep()
                        if begun == 2 + lost_count:
                            await past.bring_back()
                    if batch.committed:
                        done = batch.next_offsets[SOURCE].offset
                    if done >= COUNT:
                        break
        except ProducerFenced:
            continue
    assert await copies(daemon) == [b"%d" % number for number in range(COUNT)]


async def test_a_group_that_has_committed_nothing_continues_where_it_began(start_daemon: Start, tmp_path: Path) -> None:
    """A session that begins at the end of the log skips nothing if its first batch is fenced by a restore."""
    daemon = start_daemon()
    await fill(daemon)
    past, outcomes = Past(daemon, tmp_path / "backup"), []

    async def copy(session: TransactionalSession) -> None:
        async for batch in session:
            async with batch:
                if not outcomes:
                    await past.keep()
                for record in batch:
                    await batch.send("out", record.value)
                if not outcomes:
                    await past.bring_back()
            outcomes.append(batch.committed)
            if batch.committed:
                break

    assigned = asyncio.Event()
    async with TransactionalSession(
        "in",
        bootstrap_servers=daemon.bootstrap,
        group_id="copiers",
        consumer={"auto_offset_reset": "latest", "on_assign": lambda _: assigned.set()},
    ) as session:
        copying = asyncio.ensure_future(copy(session))
        await assigned.wait()
        assert await session.consumer.position(SOURCE) == COUNT
        async with Producer(daemon.bootstrap) as producer:
            await producer.send("in", b"new")
        await copying
    assert outcomes == [False, True]
    assert await copies(daemon) == [b"new"]


async def test_a_reader_whose_groups_offset_is_lost_continues_where_it_began(daemon: Daemon) -> None:
    """Not at the end of the log, to which `latest` leads a reader that has never begun."""
    topic = new_topic(daemon)
    source = TopicPartition(topic, 0)
    async with Producer(daemon.bootstrap) as producer, Admin(daemon.bootstrap) as admin:
        for number in range(COUNT):
            await producer.send(topic, b"%d" % number)
        await admin.alter_group_offsets(topic, {source: 3})
        async with Consumer(bootstrap_servers=daemon.bootstrap, group_id=topic, auto_offset_reset="latest") as consumer:
            consumer.assign([source])
            assert await consumer.position(source) == 3
            await admin.delete_group_offsets(topic, [source])
            consumer._distrust_positions()
            assert await consumer.position(source) == 3
