"""A broker, the database that it keeps its records in, and clients at work on it: what a part does things to."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from oncelog.client import Admin, Consumer, KafkaError, NewTopic, TopicPartition
from tests.proofs.clients.client import CLIENTS, Client, Ledger
from tests.proofs.clients.lines import COPIES, PARTITIONS
from tests.proofs.nodes import SETTING, Nodes
from tests.proofs.postgres.broker_log import last_words
from tests.proofs.postgres.verdict import Records, Verdict, judge
from tests.support.patience import PATIENCE_S, pause, until
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon
from tests.support.processes.networks import Network

_LOOK_S = 0.05
_POLL_MS = 200
_QUIET_S = 20.0
"""The end of reading: records that are not copied when nothing came for so long count as missing."""
_SETTINGS = ("group.initial.rebalance.delay.ms=0",)


@dataclass
class World:
    """`servers`: of these the first takes writes; none is a broker over files."""

    servers: list[Postgres]
    directory: Path
    seed: int
    name: str
    """The name of the schema, and the seed of the random choices."""
    kinds: Sequence[str] = CLIENTS
    count: int = 1
    """How many brokers there are; all but one stand by."""
    networks: Sequence[Network] = ()
    """The network of each broker, if brokers have networks of their own."""
    rest_ms: int = 20
    """The longest rest of a client's writer between two transactions."""
    settings: Sequence[str] = _SETTINGS
    clients: list[Client] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """The broker's sentences when it ended, or started on a database that had lost records."""
    random: Random = field(init=False)
    nodes: Nodes = field(init=False)
    _progress: list[int] = field(default_factory=list)
    _losable: list[set[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(f"{self.seed} {self.name}")
        self.nodes = Nodes(self.sql)

    @property
    def server(self) -> Postgres:
        return self.servers[0]

    @property
    def broker(self) -> Daemon:
        """The one that leads."""
        return self.nodes.leader

    @property
    def brokers(self) -> list[Daemon]:
        return self.nodes.brokers

    def sql(self, statement: str) -> Any:
        """The first value that it answers, if it answers any."""
        import psycopg

        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(f"set search_path = {self.name}")
            found = connection.execute(statement)
            return None if found.description is None else found.fetchall()[0][0]

    def _dsn(self, network: Network | None) -> str:
        """Where a broker in this network finds the servers."""
        host = "127.0.0.1" if network is None else network.here
        hosts = ",".join(f"{host}:{each.port}" for each in self.servers)
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    @property
    def bootstrap(self) -> str:
        return self.nodes.bootstrap

    @contextmanager
    def open(self) -> Iterator["World"]:
        """Starts the broker, makes the topics and starts the clients; ends what is left of them."""
        try:
            for _ in range(self.count):
                self.brokers.append(self._new_broker())
            asyncio.run(self._create_topics())
            if self.count > 1:
                self._await_nodes()
            for kind in self.kinds:
                self.clients.append(Client(kind, self.bootstrap, self.directory, self.seed, self.rest_ms))
            self._losable = [set() for _ in self.clients]
            yield self
        finally:
            for client in self.clients:
                client.kill()
            self.nodes.end()

    def _new_broker(self) -> Daemon:
        """Another on the same schema; returns when it serves, or stands by."""
        number = len(self.brokers) + 1
        network = self.networks[number - 1] if self.networks else None
        settings = (*self.settings, f"node.id={number}", *((SETTING,) if self.count > 1 else ()))
        storage = ("--storage", self._dsn(network), "--schema", self.name) if self.servers else ()
        return Daemon(self.directory / f"broker-{number}", *settings, storage=storage, network=network)

    async def _create_topics(self) -> None:
        async with Admin(self.bootstrap) as admin:
            names = [Client.topic_of(kind) for kind in self.kinds]
            topics = [NewTopic(name + end, PARTITIONS) for name in names for end in ("", COPIES)]
            await admin.create_topics(*topics)

    def _await_nodes(self) -> None:
        """Wait until Metadata lists all nodes: not all clients that begin with one node find another later."""

        async def listed() -> int:
            async with Admin(self.bootstrap) as admin:
                return len((await admin.describe_cluster()).nodes)

        until(lambda: asyncio.run(listed()) >= self.count)

    def await_progress(self, count: int = 5) -> None:
        """Wait until each client has ended so many transactions more than when this returned last."""
        before = self._progress or [0] * len(self.clients)
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            now = [client.take().ended for client in self.clients]
            if all(each >= earlier + count for each, earlier in zip(now, before, strict=True)):
                break
            if not any(each.is_running for each in self.brokers):
                raise RuntimeError(f"the broker has ended: {last_words(self.brokers[0])}")
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"the clients have ended {before} transactions, and {now} after {PATIENCE_S} s")
            pause(_LOOK_S)
        self._progress = now

    def committed(self, topic: str) -> int:
        """How far readers at read_committed get, over all partitions."""

        async def ends() -> int:
            async with self._consumer() as consumer:
                return sum((await consumer.end_offsets(await consumer.partitions_for(topic))).values())

        return asyncio.run(ends())

    def forgive_loss(self) -> None:
        """Accept that transactions that have ended by now are lost: the next database does not have all of them."""
        self._losable = [set(client.take().outcomes) for client in self.clients]

    # --- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> dict[str, tuple[Ledger, Verdict]]:
        """Stops the writers, waits for what they left open, lets the copies be made, and counts."""
        for client in self.clients:
            client.stop_writing()
        return asyncio.run(self._count())

    async def _count(self) -> dict[str, tuple[Ledger, Verdict]]:
        found = {}
        for client, losable in zip(self.clients, self._losable, strict=True):
            await self._until_stable(client.topic)
            log = await self._read(client.topic)
            wanted = {f"{name} {partition}" for partition, records in log.items() for _, name in records}
            await self._until_copied(client.topic + COPIES, wanted)
            ledger = client.end()
            await self._until_stable(client.topic + COPIES)
            copies = await self._read(client.topic + COPIES)
            found[client.kind] = ledger, judge(ledger, log, copies, losable)
        return found

    async def _until_stable(self, topic: str) -> None:
        """Wait until every transaction is ended: the abandoned ones time out."""
        places = _places(topic)
        async with Admin(self.bootstrap) as admin, asyncio.timeout(PATIENCE_S):
            while True:
                with suppress(KafkaError):
                    stable = await admin.list_offsets(places, isolation_level="read_committed")
                    if stable == await admin.list_offsets(places):
                        return
                await asyncio.to_thread(pause, _LOOK_S)

    async def _until_copied(self, topic: str, wanted: set[str]) -> None:
        left, heard_s = set(wanted), time.monotonic()
        async with self._consumer() as consumer:
            consumer.assign(_places(topic))
            while left and time.monotonic() - heard_s < _QUIET_S:
                fresh = {(record.value or b"").decode() for record in await consumer.poll(_POLL_MS)}
                if fresh:
                    heard_s = time.monotonic()
                    left -= fresh

    async def _read(self, topic: str) -> Records:
        places = _places(topic)
        found: dict[int, list[tuple[int, str]]] = {place.partition: [] for place in places}
        async with self._consumer() as consumer:
            consumer.assign(places)
            ends = await consumer.end_offsets(places)
            while any([await consumer.position(place) < end for place, end in ends.items()]):
                for record in await consumer.poll(_POLL_MS):
                    found[record.partition].append((record.offset, (record.value or b"").decode()))
        return found

    def _consumer(self) -> Consumer[bytes, bytes]:
        return Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")


def _places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
