"""aiokafka in groups, unmodified, against the daemon: every assignor that it has."""

from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from tests.conftest import Start
from tests.support.foreign.confluent import new_topic
from tests.support.foreign.interop import QUICK_GROUPS, unique
from tests.support.processes.daemon import Daemon

PARTITIONS = 6
POLLS = 400
ASSIGNORS = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)


async def member(daemon: Daemon, topic: str, group: str, assignor: type) -> AIOKafkaConsumer:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=group,
        partition_assignment_strategy=[assignor],
        auto_offset_reset="earliest",
        session_timeout_ms=3_000,
        heartbeat_interval_ms=200,
    )
    await consumer.start()
    return consumer


async def poll_until(holds: Callable[[], bool], *members: AIOKafkaConsumer) -> None:
    for _ in range(POLLS):
        if holds():
            return
        for each in members:
            await each.getmany(timeout_ms=50)
    raise AssertionError([each.assignment() for each in members])


def shared(*members: AIOKafkaConsumer) -> bool:
    """Whether every partition has one owner, and no member owns two more than another."""
    parts = [{partition.partition for partition in each.assignment()} for each in members]
    sizes = [len(part) for part in parts]
    return sum(sizes) == PARTITIONS == len(set().union(*parts)) and max(sizes) - min(sizes) <= 1


async def reads_on(daemon: Daemon, topic: str, *members: AIOKafkaConsumer) -> bool:
    """Write to each partition; return whether the members read it all."""
    async with AIOKafkaProducer(bootstrap_servers=daemon.bootstrap) as producer:
        for partition in range(PARTITIONS):
            await producer.send_and_wait(topic, b"%d" % partition, partition=partition)
    seen: set[int] = set()
    for _ in range(POLLS):
        for each in members:
            seen |= {partition.partition for partition in await each.getmany(timeout_ms=50)}
        if len(seen) == PARTITIONS:
            return True
    return False


@pytest.mark.sampled(3)
@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: str(assignor.name))
async def test_members_come_and_go_and_the_broker_is_killed(start_daemon: Start, assignor: type) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    topic, group = new_topic(daemon, partitions=PARTITIONS), unique("group")
    async with AsyncExitStack() as open_members:
        one = await member(daemon, topic, group, assignor)
        open_members.push_async_callback(one.stop)
        two = await member(daemon, topic, group, assignor)
        open_members.push_async_callback(two.stop)
        await poll_until(lambda: shared(one, two), one, two)
        three = await member(daemon, topic, group, assignor)
        open_members.push_async_callback(three.stop)
        await poll_until(lambda: shared(one, two, three), one, two, three)
        daemon.kill()
        daemon.start()
        assert await reads_on(daemon, topic, one, two, three)
        await two.stop()
        await poll_until(lambda: shared(one, three), one, three)
