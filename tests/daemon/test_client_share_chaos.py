"""Members of a share group behind a network that cuts, resets, falls silent and repeats, and through kills of the
broker: no record is lost, and none is accepted twice."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest

from oncelog.client import Admin, KafkaError, NewTopic, Producer, ShareConsumer, ShareConsumerOptions, TopicPartition
from tests.conftest import Start
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S
from tests.support.processes.chaos_proxy import ChaosProxy

TOPIC, GROUP = "jobs", "workers"
PARTITIONS = 2
COUNT = 300
MEMBERS = 3
LOCK_MS = 1_000
SETTINGS = (
    f"group.share.min.record.lock.duration.ms={LOCK_MS}",
    f"group.share.record.lock.duration.ms={LOCK_MS}",
    # So many deliveries as a group may have: a record that is given up would look like a lost one.
    "group.share.max.delivery.count.limit=25",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=200",
    "group.share.assignment.interval.ms=0",
    "group.share.min.session.timeout.ms=1000",
    "group.share.session.timeout.ms=6000",
)


class Ledger:
    """The members' knowledge of each record: returned, accepted."""

    def __init__(self) -> None:
        self.returned: set[tuple[int, int]] = set()
        self.accepted: Counter[tuple[int, int]] = Counter()
        self._has_changed = asyncio.Event()

    def add(self, partition: int, offset: int) -> None:
        self.returned.add((partition, offset))
        self._has_changed.set()

    async def changed(self) -> None:
        await self._has_changed.wait()
        self._has_changed.clear()

    def on_acknowledged(self, place: TopicPartition, offsets: Sequence[int], error: KafkaError | None) -> None:
        if error is None:
            self.accepted.update((place.partition, offset) for offset in offsets)


def options(bootstrap: str, ledger: Ledger, number: int) -> ShareConsumerOptions:
    return {
        "bootstrap_servers": bootstrap,
        "group_id": GROUP,
        "request_timeout_ms": 1_500,
        "retry_backoff_ms": 20,
        "bootstrap_timeout_ms": 60_000,
        "fetch_max_wait_ms": 100,
        "max_poll_records": 7,
        "share_acquire_mode": "record_limit" if number else "batch_optimized",
        "on_acknowledged": ledger.on_acknowledged,
    }


async def work(bootstrap: str, ledger: Ledger, number: int) -> None:
    """One member, until it is cancelled; started again when it ends, as a supervisor does."""
    while True:
        try:
            async with ShareConsumer(TOPIC, **options(bootstrap, ledger, number)) as consumer:
                while True:
                    for each in await consumer.poll(200):
                        ledger.add(each.partition, each.offset)
                    if number == 1:
                        await consumer.commit_sync()
        except KafkaError:
            continue


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(TOPIC, PARTITIONS, 1))
        await admin.alter_configs(
            {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "25"}, group=GROUP
        )
    async with Producer(bootstrap, linger_ms=0) as producer:
        for number in range(COUNT):
            await producer.send_soon(TOPIC, b"%d" % number, partition=number % PARTITIONS)
            if number % 10 == 9:
                await producer.flush()


def everything() -> set[tuple[int, int]]:
    return {(number % PARTITIONS, number // PARTITIONS) for number in range(COUNT)}


async def finish(bootstrap: str, ledger: Ledger) -> None:
    """A member that has the group for itself accepts what the others had not, until there is nothing for longer than a
    lock lasts."""
    async with ShareConsumer(TOPIC, **options(bootstrap, ledger, 0)) as consumer:
        while await consumer.poll(2 * LOCK_MS):
            assert set((await consumer.commit_sync()).values()) == {None}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("seed", range(1, 10))
async def test_each_record_is_processed_and_accepted_once_through_a_bad_network(start_daemon: Start, seed: int) -> None:
    ledger = Ledger()
    async with ChaosProxy(seed) as proxy:
        inside, outside = free_ports(2)
        daemon = start_daemon(
            f"listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            f"advertised.listeners=INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{proxy.port}",
            "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "inter.broker.listener.name=INSIDE",
            *SETTINGS,
        )
        proxy.upstream = ("127.0.0.1", outside)
        await fill(daemon.bootstrap)
        members = [asyncio.ensure_future(work(f"127.0.0.1:{proxy.port}", ledger, number)) for number in range(MEMBERS)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                while ledger.returned != everything():
                    if len(ledger.returned) > COUNT * 0.7:
                        # Nothing that a client says reaches the broker for ever while each connection may be cut.
                        proxy.calm_down()
                    await ledger.changed()
        finally:
            for each in members:
                each.cancel()
            await asyncio.gather(*members, return_exceptions=True)
        await finish(daemon.bootstrap, ledger)
        assert [*ledger.accepted.values()] == [1] * len(ledger.accepted)
        assert len(ledger.accepted) > COUNT / 2, "most responses to acknowledgements were lost"
        assert sum(proxy.counts.values()) > proxy.counts["spared"], "no connection was treated badly"


async def test_through_kills_of_the_broker_what_was_accepted_stays_so_and_the_rest_comes_again(
    start_daemon: Start,
) -> None:
    """The member is never closed: it finds the broker again, with a new session."""
    ledger, daemon = Ledger(), start_daemon(*SETTINGS)
    await fill(daemon.bootstrap)
    async with asyncio.timeout(PATIENCE_S), ShareConsumer(TOPIC, **options(daemon.bootstrap, ledger, 1)) as consumer:
        for turn in range(6):
            records = []
            while not records:
                records = await consumer.poll(500)
            places = {(each.partition, each.offset) for each in records}
            assert not places & set(ledger.accepted), "accepted before"
            if turn % 3 == 1:
                daemon.kill()
                daemon.start()
            await consumer.commit_sync()
    daemon.kill()
    daemon.start()
    await finish(daemon.bootstrap, ledger)
    assert set(ledger.accepted.values()) == {1}
    assert set(ledger.accepted) == everything()
