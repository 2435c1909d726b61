"""Transactions of several producers while the broker is killed again and again: each committed record is read once.

Everything is watched from outside: the producers' outcomes are compared with what a reader got that read on all the
while, through every kill.
"""

import asyncio
import random

import pytest

from oncelog.client import Admin, Consumer, ConsumerGroupMetadata, NewTopic, Producer, Record, TopicPartition
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

PARTITIONS = [TopicPartition("purchases", index) for index in range(3)]
PRODUCERS = 3
TRANSACTIONS = 40
KILL_AT = (20, 50, 80)
"""The broker is killed once so many transactions of all producers have ended."""


class Run:
    def __init__(self, daemon: Daemon, tasks: asyncio.TaskGroup, seed: int) -> None:
        self._daemon = daemon
        self._tasks = tasks
        self._seed = seed
        self._ended_count = 0
        self.kill_count = 0
        self.committed: dict[int, list[bytes]] = {number: [] for number in range(PRODUCERS)}
        self.read: list[Record] = []

    async def load(self, number: int) -> None:
        source = random.Random(self._seed * PRODUCERS + number)
        async with Producer(self._daemon.bootstrap, transactional_id=f"producer-{number}", linger_ms=1) as producer:
            for index in range(TRANSACTIONS):
                values = [b"%d:%d:%d" % (number, index, place) for place in range(source.randint(1, 30))]
                async with producer.transaction() as transaction:
                    for value in values:
                        partition = source.choice(PARTITIONS).partition
                        await transaction.send_soon("purchases", value, partition=partition)
                    group = ConsumerGroupMetadata(f"progress-{number}")
                    await transaction.send_offsets({PARTITIONS[0]: index}, group=group)
                    if source.random() < 0.3:
                        await transaction.abort()
                    else:
                        await transaction.commit()
                        self.committed[number] += values
                self._on_ended()

    def _on_ended(self) -> None:
        self._ended_count += 1
        if self._ended_count in KILL_AT:
            self._daemon.kill()
            self.kill_count += 1
            # In the group, so that a broker that does not come up fails the test at once.
            self._tasks.create_task(asyncio.to_thread(self._daemon.start))

    async def follow(self, loaded: asyncio.Event) -> None:
        """Read until the loading is over and the last stable offset is reached."""
        async with Consumer(
            "purchases", bootstrap_servers=self._daemon.bootstrap, auto_offset_reset="earliest"
        ) as consumer:
            while True:
                self.read += await consumer.poll(100)
                if loaded.is_set():
                    ends = await consumer.end_offsets(PARTITIONS)
                    if all([await consumer.position(each) == end for each, end in ends.items()]):
                        return

    async def until_every_marker_is_written(self) -> None:
        async with Admin(self._daemon.bootstrap) as admin, asyncio.timeout(PATIENCE_S):
            while True:
                stable = await admin.list_offsets(PARTITIONS, isolation_level="read_committed")
                if stable == await admin.list_offsets(PARTITIONS):
                    return


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
async def test_each_committed_record_is_read_once_and_no_aborted_one_is(start_daemon: Start, seed: int) -> None:
    daemon = start_daemon()
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("purchases", len(PARTITIONS), 1))
    loaded = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        run = Run(daemon, tasks, seed)
        tasks.create_task(run.follow(loaded))
        await asyncio.gather(*(run.load(number) for number in range(PRODUCERS)))
        await run.until_every_marker_is_written()
        loaded.set()
    assert run.kill_count == len(KILL_AT)
    expected = sorted(value for values in run.committed.values() for value in values)
    assert sorted(record.value or b"" for record in run.read) == expected
    for partition in PARTITIONS:
        for number in range(PRODUCERS):
            order = [
                tuple(map(int, (record.value or b"").split(b":")))
                for record in run.read
                if record.topic_partition == partition and (record.value or b"").startswith(b"%d:" % number)
            ]
            assert order == sorted(order)
