"""What a relay costs: from COMMIT to a reader of committed records, events a second, memory of a large transaction."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.client import Consumer, TopicPartition
from oncelog.client.admin.client import Admin
from oncelog.client.admin.descriptions import NewTopic
from tests.proofs.nemesis import Broker, broker_of, server_of
from tests.proofs.outbox.ledger import connected
from tests.proofs.outbox.relays import NAIVE, ROUND, Relay, command_of, install
from tests.proofs.table import Kept, listed, table, today
from tests.support.patience import pause
from tests.support.postgres.server import Postgres, need_programs, open_directory
from tests.support.processes.daemon import Daemon, Process
from tests.support.processes.programs import ROOT

KINDS = ("wal", "poll", ROUND, NAIVE)
_RATE, _SECONDS = 500, 20
_WARM = 1_000
"""Number of first events that are left out of the latencies."""
_LARGE, _SMALL = 1_000_000, 1_000
_SMALL_ONES = 300
_VALUE = 100
_POLL_MS = 100
_LOOK_S = 0.02
_COLUMNS = ("relay", "latency p50", "p99", "events/s, large", "its time", "its memory", "events/s, small", "load")


@dataclass(frozen=True, slots=True)
class Numbers:
    """The measurements of one relay."""

    kind: str
    p50_ms: float
    p99_ms: float
    large_s: float
    """Time from the COMMIT of a large transaction until all of it can be read."""
    large_rss_mb: float
    small_s: float
    """Time from the relay's first line until it has relayed the small transactions that waited for it."""
    loads: list[float]
    """The system's load before each of the three measurements: processes that run or wait for the disk."""
    date: str = field(default_factory=today)


@dataclass
class Lane:
    """One relay, with a database and a topic of one partition."""

    server: Postgres
    broker: Broker
    kind: str
    name: str
    directory: Path

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)

    def create(self) -> None:
        with connected(self.server.dsn) as connection:
            connection.execute(f"create database {self.name}")
        install(self.dsn, self.name, "wal" if self.kind == "wal" else "poll")

    def make_topic(self, topic: str) -> TopicPartition:
        async def make() -> None:
            async with Admin(self.broker.bootstrap) as admin:
                await admin.create_topics(NewTopic(topic, 1))

        asyncio.run(make())
        return TopicPartition(topic, 0)

    def start(self) -> "Relay | Served":
        command = command_of(self.kind, self.dsn, self.name, self.broker.bootstrap)
        relay = Relay(command, self.directory / f"{self.name}.log")
        relay.wait_running()
        return relay

    def latencies(self) -> list[float]:
        """Seconds from before the COMMIT until it was read, of each event, sorted."""
        place = self.make_topic(f"{self.name}.latency")
        relay = self.start()
        file = self.directory / f"{self.name}.times"
        command = [sys.executable, "-m", "tests.proofs.outbox.load", self.dsn, place.topic, str(_RATE), str(_SECONDS)]
        load = subprocess.Popen([*command, str(file)], cwd=ROOT)
        read = asyncio.run(self._read(place, _RATE * _SECONDS - _RATE))  # the last second may have one more or less
        load.wait()
        relay.stop()
        begun = {int(number): float(at_s) for number, at_s in (line.split() for line in file.read_text().splitlines())}
        return sorted(at_s - begun[number] for number, at_s in read[_WARM:])

    async def _read(self, place: TopicPartition, count: int) -> list[tuple[int, float]]:
        found: list[tuple[int, float]] = []
        async with Consumer(bootstrap_servers=self.broker.bootstrap) as consumer:
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            while len(found) < count:
                records = await consumer.poll(_POLL_MS)
                now_s = time.monotonic()
                found += [(int(record.value or b""), now_s) for record in records]
        return found

    def large(self) -> tuple[float, float]:
        """Seconds, and the most megabytes of the relay's memory."""
        place = self.make_topic(f"{self.name}.large")
        relay = self.start()
        with connected(self.dsn) as connection:
            connection.execute("begin")
            connection.execute(_filling(place.topic, _LARGE))
            began_s = time.monotonic()
            connection.execute("commit")
        self._await(place, _LARGE)
        found = time.monotonic() - began_s, _rss_mb(relay.process.pid)
        relay.stop()
        return found

    def small(self) -> float:
        place = self.make_topic(f"{self.name}.small")
        with connected(self.dsn) as connection:
            for _ in range(_SMALL_ONES):
                connection.execute(_filling(place.topic, _SMALL))
        relay = self.start()
        began_s = time.monotonic()
        self._await(place, _SMALL_ONES * _SMALL)
        found = time.monotonic() - began_s
        relay.stop()
        return found

    def _await(self, place: TopicPartition, count: int) -> None:
        async def wait() -> None:
            async with Admin(self.broker.bootstrap) as admin:
                while (await admin.list_offsets([place], isolation_level="read_committed"))[place].offset < count:
                    await asyncio.to_thread(pause, _LOOK_S)

        asyncio.run(wait())


class RoundLane(Lane):
    """A broker in the database itself: it is never away but to be given what waits for it."""

    broker: Daemon

    def create(self) -> None:
        with connected(self.server.dsn) as connection:
            connection.execute(f"create database {self.name}")
        self.broker = Daemon(self.directory / self.name, storage=("--storage", self.dsn))

    def start(self) -> "Served":
        return Served(self.broker)

    def small(self) -> float:
        place = self.make_topic(f"{self.name}.small")
        self.broker.stop()
        with connected(self.dsn) as connection:
            for _ in range(_SMALL_ONES):
                connection.execute(_filling(place.topic, _SMALL))
        self.broker.start()
        began_s = time.monotonic()
        self._await(place, _SMALL_ONES * _SMALL)
        return time.monotonic() - began_s


@dataclass(frozen=True, slots=True)
class Served:
    """A broker in the place of a relay."""

    broker: Daemon

    @property
    def process(self) -> Process:
        return self.broker.process

    def stop(self) -> None:
        """Leave it running."""


def _filling(topic: str, count: int) -> str:
    value = f"repeat('x', {_VALUE})"
    return f"select count(oncelog.produce('{topic}', 'k' || n, {value})) from generate_series(1, {count}) n"


def _rss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise RuntimeError(f"process {pid} has no VmHWM")


def measure(say: Callable[[str, str], None], kinds: Sequence[str] = KINDS) -> Iterator[Numbers]:
    with ExitStack() as stack:
        work = stack.enter_context(open_directory())
        server = stack.enter_context(server_of(work / "data", need_programs(), {"max_wal_size": "4GB"}))
        broker = stack.enter_context(broker_of("oncelog", work / "broker"))
        for number, kind in enumerate(kinds):
            lane = (RoundLane if kind == ROUND else Lane)(server, broker, kind, f"lane_{number}", work)
            lane.create()
            if isinstance(lane, RoundLane):
                stack.callback(lane.broker.kill)
            loads = [_load()]
            latencies = lane.latencies()
            p50_ms, p99_ms = (round(latencies[int(len(latencies) * part)] * 1000, 1) for part in (0.5, 0.99))
            say(kind, f"p50 {p50_ms} ms, p99 {p99_ms} ms")
            loads.append(_load())
            small_s = round(lane.small(), 2)
            say(kind, f"{_SMALL_ONES} x {_SMALL} events in {small_s} s")
            loads.append(_load())
            large_s, rss_mb = lane.large()
            say(kind, f"{_LARGE} events in {large_s:.1f} s, {rss_mb} MB")
            yield Numbers(kind, p50_ms, p99_ms, round(large_s, 2), rss_mb, small_s, loads)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


KEPT = Kept(lambda line: Numbers(**line), key=lambda numbers: numbers.kind)


def section(measured: Path) -> list[str]:
    """The section of the page."""
    found = KEPT.read(measured)
    if not found:
        return []
    return [
        "",
        "### What it costs",
        "",
        f"Measured by `python -m tests.proofs outbox numbers` ({listed(each.date for each in found)}), "
        f"with oncelog as the broker and everything on one machine of {os.cpu_count()} cores. Latency: from the moment "
        f"before COMMIT is sent until a read_committed consumer has the event, at {_RATE} commits a second for "
        f"{_SECONDS} s. Large: one SQL transaction of {_LARGE:,} events with values of {_VALUE} bytes, from COMMIT "
        "until all of it can be read; memory is the relay's resident set at its highest. Small: "
        f"{_SMALL_ONES} transactions of {_SMALL:,} events, committed before the relay starts. The load is that of the "
        "last minute before each of the three.",
        "",
        *table(_COLUMNS, map(_row, found), range(1, 7)),
        "",
        f"{NAIVE.capitalize()} waits 100 ms where it finds nothing, and is in no transaction: its readers see a large "
        "SQL transaction in parts, and it loses and doubles what the table above says. In a "
        f"{ROUND} the broker has its records in the same database and takes the rows itself: the memory is the "
        "broker's, and of a large SQL transaction readers see parts, too.",
    ]


def _row(found: Numbers) -> tuple[str, ...]:
    return (
        found.kind,
        f"{found.p50_ms:,} ms",
        f"{found.p99_ms:,} ms",
        f"{_LARGE / found.large_s:,.0f}",
        f"{found.large_s:.0f} s",
        f"{found.large_rss_mb:,.0f} MB",
        f"{_SMALL_ONES * _SMALL / found.small_s:,.0f}",
        ", ".join(str(load) for load in found.loads),
    )
