"""Members of groups, unmodified, through five kills of the leader of two nodes: each protocol of each client.

A member must read what was produced behind each take-over, and in the end everything was read. Programs whose members
commit, share a topic and leave have to end. Beside members an Admin of librdkafka lists the groups at once.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

from oncelog.client import NewTopic
from oncelog.sync import Admin
from tests.interop.test_confluentjs import command as confluentjs
from tests.interop.test_java_group_survival import PROTOCOLS, Readers, reading
from tests.interop.test_java_share_survival import Members
from tests.proofs.postgres.world import World
from tests.support.foreign.interop import GO_PROGRAM, QUICK_GROUPS, finished_while_killed, needs, unique
from tests.support.patience import PATIENCE_S, SLOW_TIMEOUT_S, until
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
pytest.importorskip("psycopg", reason="the tables are asked with psycopg: pip install 'oncelog[postgres]'")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S), pytest.mark.xdist_group("postgres")]

KILLS = 5
PARTITIONS = 2
A_ROUND = 40
"""Records between two kills."""
_LISTED_S = 8
"""An Admin that asks a node that has ended waits for longer, on any machine: its request times out."""


class Pair:
    """Two nodes that look like one broker to the test: to kill it is to kill the leader, and it is back when another
    leads.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.bootstrap = world.bootstrap
        self._killed: Daemon | None = None

    def kill(self) -> None:
        self.world.nodes.await_standbys()
        leader = self._killed = self.world.broker
        leader.kill()
        until(lambda: self.world.broker is not leader)

    def start(self) -> None:
        assert self._killed is not None
        self._killed.start()

    def new_topic(self) -> str:
        name = unique("topic")
        with Admin(self.bootstrap) as admin:
            admin.create_topics(NewTopic(name, PARTITIONS))
        return name

    def produce(self, topic: str, prefix: str) -> set[str]:
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0, **_QUICK})
        values = {f"{prefix}-{number}" for number in range(A_ROUND)}
        for number, value in enumerate(sorted(values)):
            producer.produce(topic, value, partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        return values


_QUICK = {"reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 500}


@pytest.fixture
def pair(postgres: Postgres, tmp_path: Path) -> Iterator[Pair]:
    settings = (*QUICK_GROUPS, "group.share.record.lock.duration.ms=15000")
    with World([postgres], tmp_path, 1, unique("pair").replace("-", "_"), (), count=2, settings=settings).open() as it:
        yield Pair(it)


def through_kills(pair: Pair, topic: str, await_read: Callable[[set[str]], None], group: str = "") -> set[str]:
    """Each round is read behind the take-over before it, while the node that was killed is still away."""
    wanted = pair.produce(topic, "first")
    await_read(wanted)
    for number in range(KILLS):
        pair.kill()
        wanted |= pair.produce(topic, f"behind{number}")
        await_read(wanted)
        if group:
            assert group in groups_by_librdkafka(pair)
        pair.start()
    return wanted


def groups_by_librdkafka(pair: Pair) -> list[str]:
    """List groups by an Admin of its own, which must not ask the node that was killed."""
    begun_s = time.monotonic()
    admin = AdminClient({"bootstrap.servers": pair.bootstrap, "log_level": 0, **_QUICK})
    found = admin.list_consumer_groups(request_timeout=PATIENCE_S).result()
    assert [str(error) for error in found.errors] == []
    assert time.monotonic() - begun_s < _LISTED_S
    return [each.group_id for each in found.valid]


class Polled:
    """Polls a member in a thread, and keeps what it was handed."""

    def __init__(self, poll: Callable[[], list[str]]) -> None:
        self._poll, self._values = poll, set[str]()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._stopped.is_set():
            self._values.update(self._poll())

    def await_read(self, wanted: set[str]) -> None:
        until(lambda: wanted <= self._values or not self._thread.is_alive())
        assert wanted <= self._values

    def __enter__(self) -> "Polled":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_of_librdkafka_read_on(pair: Pair, protocol: str) -> None:
    topic, group = pair.new_topic(), unique("group")
    settings: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
    none = {"metadata.recovery.strategy": "none", "topic.metadata.refresh.interval.ms": 60_000, "log_level": 0}
    member = Consumer({"bootstrap.servers": pair.bootstrap, **settings, **none, **_QUICK})
    member.subscribe([topic])

    def poll() -> list[str]:
        messages = [each for each in member.consume(100, 0.1) if each.error() is None]
        if messages:
            member.commit(asynchronous=True)
        return [(each.value() or b"").decode() for each in messages]

    with closing(member), Polled(poll) as polled:
        through_kills(pair, topic, polled.await_read, group)


def test_members_of_librdkafkas_share_groups_read_on(pair: Pair) -> None:
    topic, group = pair.new_topic(), unique("group")
    with Admin(pair.bootstrap) as admin:
        admin.alter_configs({"share.auto.offset.reset": "earliest"}, group=group)
    member = ShareConsumer({"bootstrap.servers": pair.bootstrap, "group.id": group, "log_level": 0, **_QUICK})
    member.subscribe([topic])

    def poll() -> list[str]:
        return [(each.value() or b"").decode() for each in member.poll(0.2) if each.error() is None]

    with member, Polled(poll) as polled:
        through_kills(pair, topic, polled.await_read)


def test_members_of_kafka_python_read_on(pair: Pair) -> None:
    topic, group = pair.new_topic(), unique("group")
    quick = {"request_timeout_ms": 5_000, "session_timeout_ms": 4_000, "reconnect_backoff_max_ms": 500}
    member = KafkaConsumer(
        topic, bootstrap_servers=pair.bootstrap.split(","), group_id=group, auto_offset_reset="earliest", **quick
    )

    def poll() -> list[str]:
        with suppress(KafkaConnectionError):  # raised at times while the node is away; the next call recovers
            return [each.value.decode() for records in member.poll(100).values() for each in records]
        return []

    with closing(member), Polled(poll) as polled:
        through_kills(pair, topic, polled.await_read, group)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["CooperativeStickyAssignor", "consumer"])
def test_members_of_java_read_on(pair: Pair, kind: str) -> None:
    topic, group = pair.new_topic(), unique("group")
    place = ("--bootstrap-server", pair.bootstrap, "--topic", topic, "--group-id", group)
    with reading(*place, "--reset-policy", "earliest", "--verbose", *PROTOCOLS[kind]) as readers:
        readers.start()
        readers.start()
        wanted = through_kills(pair, topic, lambda values: _await_readers(readers, values), group)
    assert readers.values.keys() == wanted


def _await_readers(readers: Readers, values: set[str]) -> None:
    readers.wait(lambda: values <= readers.values.keys())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_members_of_javas_share_groups_read_on(pair: Pair, mode: str) -> None:
    topic, group = pair.new_topic(), unique("group")
    place = ("--bootstrap-server", pair.bootstrap, "--topic", topic, "--group-id", group)
    members = Members(*place, "--acknowledgement-mode", mode, "--offset-reset-strategy", "earliest")
    try:
        members.start()
        members.start()
        through_kills(pair, topic, lambda values: members.wait(lambda: len(members.acknowledged) >= len(values)))
    finally:
        members.stop()
    again = [place for place, times in members.acknowledged.items() if max(members.consumed[place]) > min(times)]
    assert again == []


ENDING = {
    "franz-go-classic": ("transform", "3000 records, each once; some transactions aborted: true"),
    "franz-go-consumer": ("transform-consumers", "3000 records, each once; some transactions aborted: true"),
    "franz-go-share": ("queue", "6000 records, each delivered, all acknowledged"),
}
"""Scenes of tests/interop/go, and what they print once all of their members have left."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ENDING)
def test_programs_of_franz_go_end(pair: Pair, kind: str) -> None:
    needs(GO_PROGRAM)
    scene, said = ENDING[kind]
    command = [str(GO_PROGRAM), scene, pair.bootstrap, unique("pair")]
    assert finished_while_killed(command, pair, pause_s=0.5, kills=KILLS) == [said]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_programs_of_confluents_javascript_client_end(pair: Pair, protocol: str) -> None:
    lines = finished_while_killed(
        confluentjs("transform", cast(Daemon, pair), protocol), pair, pause_s=0.5, kills=KILLS
    )
    assert lines == ["600 records, 600 different"]
