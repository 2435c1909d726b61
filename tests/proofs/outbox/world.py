"""A database with writers, a broker, and the relay between them: what a part does things to, and counts in the end."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from oncelog.client import Consumer, TopicPartition
from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import NewTopic
from tests.proofs.nemesis import Broker, followed
from tests.proofs.nodes import SETTING, Nodes
from tests.proofs.outbox.ledger import (
    ASIDE,
    HEADER_BYTES,
    HEADER_EACH,
    REFUSED,
    TOPICS,
    Change,
    Ledger,
    connected,
)
from tests.proofs.outbox.relays import (
    AT_LEAST_ONCE,
    CARRIERS,
    NAIVE,
    ROUND,
    ROUNDS,
    TWO_NODES,
    Relay,
    command_of,
    install,
)
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

_QUIET_S = 20.0
"""The end of reading: events that have not come when nothing came for so long count as missing."""
_POLL_MS = 200
_NODES = {ROUND: 1, TWO_NODES: 2}


@dataclass(frozen=True, slots=True)
class Counted:
    """Counts of the events, by outcome."""

    commits: int = 0
    rollbacks: int = 0
    events: int = 0
    """Committed ones."""
    missing: int = 0
    doubled: int = 0
    disordered: int = 0
    """How often an earlier event of a row came behind a later one."""
    rolled_back: int = 0
    """Events of what was rolled back that were read."""
    only_in_kafka: int = 0
    """Events that the database has lost since."""
    lost_by_database: int = 0
    """Events whose commit was answered."""


@dataclass
class World:
    """`kind`: a carrier, or another design of a relay. Without one (`ROUNDS`) the world has a broker of its own."""

    server: Postgres
    broker: Broker
    kind: str
    name: str
    seed: int
    directory: Path
    random: Random = field(init=False)
    ledger: Ledger = field(init=False)
    relay: Relay | None = None
    missed: set[Change] = field(default_factory=set)
    """Changes that the database has committed and that are not expected in Kafka."""
    lost: int | None = None
    """Events that one side has lost, where a part knows; else those that are in Kafka alone."""
    said: str | None = None
    """The relay's sentence about a loss; None where there is nothing to notice."""
    _servers: list[Postgres] = field(default_factory=list)
    _standbys: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed} {self.name}")
        self._servers = [self.server]
        table = "oncelog.oncelog_outbox" if self.kind in ROUNDS else None if self.carrier == "wal" else "oncelog.outbox"
        self.ledger = Ledger(self.dsn, self.name, self.seed, table, self.kind in (*CARRIERS, *ROUNDS))

    @property
    def carrier(self) -> str:
        return self.kind if self.kind in CARRIERS else {NAIVE: "poll", AT_LEAST_ONCE: "wal"}[self.kind]

    @property
    def dsn(self) -> str:
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in self._servers)
        return f"postgresql://postgres@{hosts}/{self.name}?target_session_attrs=read-write"

    @property
    def topics(self) -> list[str]:
        return [f"{self.name}.{topic}" for topic in TOPICS]

    @contextmanager
    def open(self) -> Iterator["World"]:
        """Makes the database, the topics, the outbox and the ledger, and starts the writers."""
        with connected(self.server.dsn) as connection:
            encoding = "template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C'"
            connection.execute(f"create database {self.name} {encoding}")
        if self.kind not in ROUNDS:
            yield from self._opened()
            return
        settings = ("oncelog.postgres.allow.loss=true",)  # a test has no time for fsync
        nodes = Nodes(self._ask)
        try:
            for number in range(1, _NODES[self.kind] + 1):
                own = (f"node.id={number}", SETTING) if self.kind == TWO_NODES else ()
                storage = ("--storage", self.dsn)
                nodes.brokers.append(Daemon(self.directory / f"node-{number}", *own, *settings, storage=storage))
            self.broker = nodes.brokers[0] if self.kind == ROUND else nodes
            yield from self._opened()
        finally:
            nodes.end()

    def _ask(self, statement: str) -> Any:
        with connected(self.dsn) as connection:
            connection.execute("set search_path = oncelog")
            return connection.execute(statement).fetchone()[0]

    def _opened(self) -> Iterator["World"]:
        asyncio.run(self._create_topics())
        if self.kind not in ROUNDS:
            install(self.dsn, self.name, self.carrier)
        self.ledger.create()
        self.ledger.start()
        try:
            yield self
        finally:
            self.ledger.stop()
            self.end_relay()
            self._standbys.close()

    async def _create_topics(self) -> None:
        topics = [NewTopic(f"{self.name}.{topic}", count) for topic, count in TOPICS.items()]
        async with Admin(self.broker.bootstrap) as admin:
            await admin.create_topics(*topics)

    def follow(self, settings: Mapping[str, str]) -> Postgres:
        """Returns a standby; what connects from now on finds the one of the two that takes writes."""
        standby = self._standbys.enter_context(followed(self.server, settings))
        self._servers.append(standby)
        self.ledger.dsn = self.dsn
        return standby

    def drop_slot(self) -> None:
        """Drop the part's slot, or the server would keep its log when the part is over."""
        with connected(self.dsn) as connection:
            for act in ("pg_terminate_backend(active_pid, 60000)", "pg_drop_replication_slot(slot_name)"):
                connection.execute(f"select {act} from pg_replication_slots where slot_name = %s", [self.name])

    def start_relay(self, *options: str, dies: tuple[str, ...] = ()) -> Relay:
        if self.kind in CARRIERS:
            options = *options, "--refuse-to", f"table:{REFUSED}"
        command = command_of(self.kind, self.dsn, self.name, self.broker.bootstrap, *options, dies=dies)
        self.relay = Relay(command, self.directory / f"{self.name}.log")
        return self.relay

    def end_relay(self) -> None:
        if self.relay is not None:
            self.relay.kill()

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> Counted:
        """Stops the writers, reads until all has come, stops the relay, and reads what is there then."""
        self.ledger.stop()
        if self.relay is not None:
            self.relay.wait_running()  # or has ended: a start takes long on a busy machine
        committed = self.ledger.committed()
        expected = [each for each in committed if each not in self.missed]
        return self._count(committed, expected, asyncio.run(self._read(expected)))

    async def _read(self, expected: Sequence[Change]) -> list[Change]:
        awaited = {each.event for each in expected}
        found: list[Change] = []
        async with Consumer(bootstrap_servers=self.broker.bootstrap) as consumer:
            places = [place for topic in self.topics for place in await consumer.partitions_for(topic)]
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            heard_s = time.monotonic()
            while awaited and time.monotonic() - heard_s < _QUIET_S:
                fresh = await self._poll(consumer) + self._aside(found)
                if fresh:
                    heard_s = time.monotonic()
                    found += fresh
                    awaited.difference_update(each.event for each in fresh)
            if self.relay is not None:
                self.relay.stop()
            ends = await consumer.end_offsets(places)
            while await _is_behind(consumer, ends):
                found += await self._poll(consumer)
        return found + self._aside(found)

    def _aside(self, known: Sequence[Change]) -> list[Change]:
        """Returns the changes that the relay has put aside and that are not in `known`."""
        if not self.ledger.has_aside:
            return []
        table = "oncelog.oncelog_outbox_refused" if self.kind in ROUNDS else REFUSED
        with connected(self.dsn) as connection:
            if connection.execute("select to_regclass(%s)", [table]).fetchone() == (None,):
                return []
            rows = Counter(bytes(value).decode() for (value,) in connection.execute(f"select value from {table}"))
        rows.subtract(each.event for each in known if each.item == ASIDE)
        return [Change(event, ASIDE, 0) for event in (+rows).elements()]

    async def _poll(self, consumer: Consumer) -> list[Change]:
        found = []
        for record in await consumer.poll(_POLL_MS):
            event, item, version = (record.value or b"").decode().split(" ")
            headers = [] if int(version) % HEADER_EACH else [("h", b"x" * HEADER_BYTES)]
            if (record.key or b"").decode() != item or [*record.headers] != headers:
                raise RuntimeError(f"{record} has another key, or other headers")
            found.append(Change(event, int(item), int(version)))
        return found

    def _count(self, committed: list[Change], expected: Sequence[Change], read: list[Change]) -> Counted:
        there, times = {each.event for each in committed}, Counter(each.event for each in read)
        rolled_back = self.ledger.rolled_back()
        versions: dict[int, list[int]] = {}
        for change in read:
            if change.event in there and change.item != ASIDE:
                versions.setdefault(change.item, []).append(change.version)
        return Counted(
            commits=sum(writer.commits for writer in self.ledger.writers),
            rollbacks=sum(writer.rollbacks for writer in self.ledger.writers),
            events=len(committed),
            missing=sum(each.event not in times for each in expected),
            doubled=sum(count - 1 for count in times.values()),
            disordered=sum(late > early for each in versions.values() for late, early in pairwise(each)),
            rolled_back=len(times.keys() & rolled_back),
            only_in_kafka=len(times.keys() - there - rolled_back),
            lost_by_database=len(self.ledger.acknowledged() - there),
        )


async def _is_behind(consumer: Consumer, ends: dict[TopicPartition, int]) -> bool:
    return any([await consumer.position(place) < end for place, end in ends.items()])
