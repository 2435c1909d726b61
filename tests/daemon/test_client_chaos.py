"""Behind a network that cuts, resets, falls silent and repeats, exactly once stays exactly once, and in order."""

import asyncio
from collections.abc import AsyncIterator
from itertools import product

import pytest

from oncelog.client import (
    Admin,
    Consumer,
    ConsumerOptions,
    KafkaError,
    NewTopic,
    Producer,
    ProducerOptions,
    TopicPartition,
    TransactionalSession,
)
from tests.clients.topics import until_stable
from tests.conftest import Start
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.processes.chaos_proxy import ChaosProxy

PARTITIONS = 3
COUNT = 300
INSTANCES = 2
_READ = ConsumerOptions(
    request_timeout_ms=1_500,
    retry_backoff_ms=20,
    bootstrap_timeout_ms=60_000,
    fetch_max_wait_ms=100,
)
_CLASSIC = ConsumerOptions(session_timeout_ms=6_000, heartbeat_interval_ms=500)
PROTOCOLS: dict[str, ConsumerOptions] = {
    "eager": _CLASSIC,
    "cooperative": {**_CLASSIC, "partition_assignment_strategy": ["cooperative-sticky"]},
    "consumer": {"group_protocol": "consumer"},
}
_WRITE = ProducerOptions(request_timeout_ms=1_500, retry_backoff_ms=20, bootstrap_timeout_ms=60_000)


async def copy(bootstrap: str, name: str, protocol: str) -> None:
    """One instance, until it is cancelled; started again when it ends, as a supervisor does."""
    while True:
        try:
            async with TransactionalSession(
                "in",
                bootstrap_servers=bootstrap,
                group_id="copiers",
                transactional_id=name,
                max_records=10,
                consumer=ConsumerOptions(**{**_READ, **PROTOCOLS[protocol], "group_instance_id": name}),
                producer=_WRITE,
            ) as session:
                async for batch in session:
                    async with batch:
                        for record in batch:
                            await batch.send_soon("out", record.value, partition=record.partition)
        except KafkaError:
            continue


async def results(bootstrap: str) -> AsyncIterator[list[list[int]]]:
    """Yield the records in each partition of the result so far, again and again."""
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("out", index) for index in range(PARTITIONS)])
        while True:
            for record in await consumer.poll(500):
                found[record.partition].append(int(record.value or b"-1"))
            yield found


@pytest.mark.sampled(13)
@pytest.mark.parametrize(("seed", "version"), list(product(range(1, 10), (1, 2))))
async def test_two_instances_copy_each_record_once_and_in_order(start_daemon: Start, seed: int, version: int) -> None:
    protocol = list(PROTOCOLS)[seed % len(PROTOCOLS)]
    # A repeated EndTxn of the first protocol may end the next transaction: that is what the second one is for.
    async with ChaosProxy(seed, may_repeat=version == 2) as proxy:
        inside, outside = free_ports(2)
        daemon = start_daemon(
            f"oncelog.feature.transaction.version={version}",
            f"listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            f"advertised.listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{proxy.port}",
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name=INSIDE",
            "group.initial.rebalance.delay.ms=0",
            "group.consumer.min.session.timeout.ms=1000",
            "group.consumer.session.timeout.ms=6000",
            "group.consumer.min.heartbeat.interval.ms=100",
            "group.consumer.heartbeat.interval.ms=500",
        )
        proxy.upstream = ("127.0.0.1", outside)
        await fill(daemon.bootstrap)
        copiers = [
            asyncio.ensure_future(copy(f"127.0.0.1:{proxy.port}", f"copier-{number}", protocol))
            for number in range(INSTANCES)
        ]
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for found in results(daemon.bootstrap):
                    if sum(map(len, found)) > COUNT * 0.7:
                        # Nothing that a client says reaches the broker for ever while each connection may be cut.
                        proxy.calm_down()
                    if sum(map(len, found)) >= COUNT:
                        break
        finally:
            for copier in copiers:
                copier.cancel()
            await asyncio.gather(*copiers, return_exceptions=True)
        expected = [list(range(index, COUNT, PARTITIONS)) for index in range(PARTITIONS)]
        assert await everything(daemon.bootstrap) == expected
        assert sum(proxy.counts.values()) > proxy.counts["spared"], "no connection was treated badly"


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic("in", PARTITIONS, 1), NewTopic("out", PARTITIONS, 1))
    async with Producer(bootstrap) as producer:
        for number in range(COUNT):
            await producer.send_soon("in", b"%d" % number, partition=number % PARTITIONS)


async def everything(bootstrap: str) -> list[list[int]]:
    """The whole result, once nothing is open."""
    places = [TopicPartition("out", index) for index in range(PARTITIONS)]
    await until_stable(bootstrap, *places)
    async with Admin(bootstrap) as admin:
        ends = await admin.list_offsets(places)
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        for place in places:
            while await consumer.position(place) < ends[place].offset:
                for record in await consumer.poll(500):
                    found[record.partition].append(int(record.value or b"-1"))
    return found
