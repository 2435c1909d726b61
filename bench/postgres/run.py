"""Rounds: each runs every workload once over files and once over PostgreSQL.

Owns: the two brokers, what is counted around a workload. Does not own: the order of the turns (`harness.rounds`),
tables (`report`). Invariant: what a broker has put off is done, and counted, before the next turn begins.
"""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.harness.rounds import keep, turns
from bench.peers.broker import Broker
from bench.peers.contestants import Contestant, Launch, Launcher
from bench.peers.run import sample_of
from bench.peers.workloads import Clock, Scene, Workload, prepare
from bench.postgres.database import Database
from bench.postgres.workloads import CATCH_UP, WORKLOADS, fill
from tests.support.kafka.server import free_ports

FILES, POSTGRES = "files", "postgres"
NAMES = {FILES: "files, fsync", POSTGRES: "PostgreSQL"}
_SCHEMA = "bench"
_PUT_OFF_S = 12.0
"""Then a checkpoint of at most ten seconds has come, and the next one has nothing to move."""
_LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Sample:
    """One workload on one broker in one round."""

    value: float
    """A rate, or the median time of an operation in ms."""
    p99_ms: float | None
    broker_cpu_s: float
    database_cpu_s: float
    wal_bytes: int
    table_bytes: int
    """By how much the tables have grown."""


def serve(*options: str) -> Launcher:
    """A broker of this checkout."""

    def launch(_: Path) -> Launch:
        (port,) = free_ports(1)
        return Launch(
            [sys.executable, "-P", "-m", "oncelog.broker", "serve", *options, "--listen", f"127.0.0.1:{port}"], port
        )

    return launch


def over(database: Database, schema: str = _SCHEMA) -> Contestant:
    launch = serve("--storage", database.dsn, "--schema", schema)
    return Contestant(POSTGRES, NAMES[POSTGRES], lambda: database.version, launch)


class Run:
    def __init__(
        self,
        database: Database,
        place: Path,
        workloads: Sequence[Workload],
        rounds: int,
        scale: int,
        progress: Callable[[str, int, int], None],
    ) -> None:
        """`place` is a directory on the disk of the database; the counts of operations are divided by `scale`."""
        self._database = database
        self._place = place
        self._workloads = workloads
        self._rounds = rounds
        self._scale = scale
        self._progress = progress
        self.samples: dict[str, dict[str, list[Sample]]] = {}
        """By workload, then by broker, both by key."""

    def all(self) -> None:
        files = Contestant(FILES, NAMES[FILES], lambda: "", serve("--data-dir", "data"))
        brokers: list[Broker] = []
        try:
            for each in (files, over(self._database)):
                brokers.append(Broker(each, self._place / each.key))
            for broker in brokers:
                self._progress(f"filling: {broker.contestant.name}", 0, 1)
                prepare(self._scene(broker, 1))
                (old,) = [each for each in WORKLOADS if each.key == CATCH_UP]
                fill(self._scene(broker, old.scaled(self._scale)))
            time.sleep(_PUT_OFF_S)
            self._take_turns(brokers)
        finally:
            for broker in brokers:
                broker.stop()

    def _take_turns(self, brokers: Sequence[Broker]) -> None:
        done, steps = 0, (self._rounds + 1) * len(self._workloads) * len(brokers)
        for number, workload, in_order in turns(self._rounds, self._workloads, brokers):
            for broker in in_order:
                name = f"round {number} of {self._rounds}" if number else "warm-up"
                self._progress(f"{name}: {workload.title}: {broker.contestant.name}", done, steps)
                done += 1
                sample = self._measure(broker, workload)
                if number:
                    keep(self.samples, workload.key, broker.contestant.key, sample)

    def _measure(self, broker: Broker, workload: Workload) -> Sample:
        os.sync()
        scene = self._scene(broker, workload.scaled(self._scale))
        before = self._counts(broker)
        workload.run(scene)
        measured = sample_of(workload, scene.count, scene.clock)
        time.sleep(_PUT_OFF_S)
        broker_s, database_s, wal_bytes, table_bytes = (
            after - was for after, was in zip(self._counts(broker), before, strict=True)
        )
        return Sample(measured.value, measured.p99_ms, broker_s, database_s, int(wal_bytes), int(table_bytes))

    def _counts(self, broker: Broker) -> tuple[float, ...]:
        database = self._database
        return broker.cpu_s(), database.cpu_s(), database.wal_bytes(), database.size_bytes(_SCHEMA)

    def _scene(self, broker: Broker, count: int) -> Scene:
        return Scene(broker.bootstrap, count, time.monotonic() + _LIMIT_S, Clock())
