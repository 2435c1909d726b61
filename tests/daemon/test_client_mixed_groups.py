"""Our client in one group with librdkafka, kafka-python and Java's: whichever leads, every partition has one owner, and
members that stay give up only what another member gets.
"""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import confluent_kafka
import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

from oncelog.client import Consumer, ConsumerOptions, TopicPartition
from tests.conftest import Start
from tests.support.foreign.confluent import new_topic
from tests.support.foreign.interop import QUICK_GROUPS, unique
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

PARTITIONS = 6
KINDS: dict[str, ConsumerOptions] = {
    "cooperative-sticky": {
        "partition_assignment_strategy": ["cooperative-sticky"],
        "heartbeat_interval_ms": 100,
        "session_timeout_ms": 60_000,
    },
    "consumer": {"group_protocol": "consumer"},
}


class Peer(Protocol):
    """A member of another client, in a thread or process of its own."""

    owned: set[int]

    def close(self) -> None: ...


class Polled:
    """A member that has to be polled, in a thread."""

    def __init__(self, poll: Callable[[], set[int]], close: Callable[[], None]) -> None:
        self.owned: set[int] = set()
        self._poll, self._close = poll, close
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self.owned = self._poll()
        self._close()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)


def librdkafka(daemon: Daemon, topic: str, group: str, kind: str) -> Peer:
    protocol: dict[str, str | int] = {"group.protocol": kind}
    if kind != "consumer":
        protocol = {"partition.assignment.strategy": kind, "session.timeout.ms": 60_000, "heartbeat.interval.ms": 100}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": group, **protocol})
    consumer.subscribe([topic])

    def poll() -> set[int]:
        consumer.poll(0.05)
        return {each.partition for each in consumer.assignment()}

    return Polled(poll, consumer.close)


def kafka_python(daemon: Daemon, topic: str, group: str, kind: str) -> Peer:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=group,
        partition_assignment_strategy=[CooperativeStickyAssignor],
        session_timeout_ms=60_000,
        heartbeat_interval_ms=100,
    )

    def poll() -> set[int]:
        consumer.poll(timeout_ms=2_000)
        return {each.partition for each in consumer.assignment()}

    return Polled(poll, consumer.close)


class Java:
    """Kafka's own VerifiableConsumer, which prints what it is assigned."""

    def __init__(self, daemon: Daemon, topic: str, group: str, kind: str) -> None:
        libraries, java = os.environ.get("ONCELOG_KAFKA_LIBS"), shutil.which("java")
        if libraries is None or java is None:
            pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
        self.owned: set[int] = set()
        protocol = ["--group-protocol", "consumer"]
        if kind != "consumer":
            strategy = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            protocol = ["--assignment-strategy", strategy, "--session-timeout", "60000"]
        command = [java, "-Xmx256m", "-cp", f"{libraries}/*", "org.apache.kafka.tools.VerifiableConsumer"]
        place = ["--bootstrap-server", daemon.bootstrap, "--topic", topic, "--group-id", group]
        self._process = subprocess.Popen(
            [*command, *place, *protocol], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            partitions = {each["partition"] for each in event.get("partitions", ()) if "partition" in each}
            if event.get("name") == "partitions_assigned":
                self.owned = self.owned | partitions
            elif event.get("name") == "partitions_revoked":
                self.owned = self.owned - partitions

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)


PEERS = [
    pytest.param(librdkafka, "cooperative-sticky", id="librdkafka"),
    pytest.param(kafka_python, "cooperative-sticky", id="kafka-python"),
    pytest.param(Java, "cooperative-sticky", id="java", marks=pytest.mark.kafka),
    pytest.param(librdkafka, "consumer", id="librdkafka-consumer"),
    pytest.param(Java, "consumer", id="java-consumer", marks=pytest.mark.kafka),
]


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    started: list[Peer] = []
    yield started
    for each in started:
        each.close()


class Ours:
    """Our members, which are polled in turn, and what each had to give up."""

    def __init__(self, daemon: Daemon, topic: str, group: str, kind: str) -> None:
        self._topic = topic
        self._options = ConsumerOptions(
            bootstrap_servers=daemon.bootstrap,
            group_id=group,
            **KINDS[kind],  # type: ignore[typeddict-item]
        )
        self.members: list[Consumer] = []
        self.revoked: list[TopicPartition] = []

    async def join(self) -> Consumer:
        async def on_revoke(partitions: object) -> None:
            self.revoked += partitions  # type: ignore[arg-type, operator]

        consumer = Consumer(self._topic, on_revoke=on_revoke, **self._options)
        await consumer.__aenter__()
        self.members.append(consumer)
        return consumer

    async def settle(self, peers: list[Peer], *sizes: int) -> None:
        """Wait until the members have so many partitions each, in ascending order, each partition once."""

        def parts() -> list[set[int]]:
            ours = [{each.partition for each in member.assignment()} for member in self.members]
            return [*ours, *(each.owned for each in peers)]

        try:
            async with asyncio.timeout(PATIENCE_S):
                while sorted(map(len, parts())) != list(sizes) or len(set().union(*parts())) != PARTITIONS:
                    await asyncio.gather(*(member.poll(50) for member in self.members))
        except TimeoutError:
            raise AssertionError(parts()) from None

    async def close(self) -> None:
        for member in self.members:
            await member.close()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("leads", ["they", "we"])
@pytest.mark.parametrize(("peer", "kind"), PEERS)
async def test_members_of_two_clients_share_a_group(
    start_daemon: Start, peers: list[Peer], peer: Callable[[Daemon, str, str, str], Peer], kind: str, leads: str
) -> None:
    daemon = start_daemon(*QUICK_GROUPS)
    topic, group = await asyncio.to_thread(new_topic, daemon, PARTITIONS), unique("group")
    ours = Ours(daemon, topic, group, kind)

    async def they_join() -> None:
        peers.append(await asyncio.to_thread(peer, daemon, topic, group, kind))

    await (ours.join() if leads == "we" else they_join())
    await ours.settle(peers, 6)
    await (ours.join() if leads == "they" else they_join())
    await ours.settle(peers, 3, 3)
    await ours.join()
    await ours.settle(peers, 2, 2, 2)
    await asyncio.to_thread(peers.pop().close)
    await ours.settle(peers, 3, 3)
    # The first member had 6 and then 2; the second one had 3.
    assert len(ours.revoked) == (4 if leads == "we" else 1)
    await ours.close()
