"""Rounds: each runs every workload once on every contestant.

Owns: the starts, what is counted around a workload, what becomes of a failure. Does not own: the order of the turns
(`harness.rounds`), tables (`report`). Where a workload can run against librdkafka's mock, each round also measures the
client alone. Invariant: what fails once on a contestant is not tried on it again; the report says what it was. The
others continue.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles
from typing import TypeVar

from confluent_kafka import KafkaException

from bench.harness.rounds import keep, rotated, turns
from bench.peers import workloads as client
from bench.peers.broker import Broker, BrokerFailed
from bench.peers.contestants import Contestant
from bench.peers.workloads import Clock, Incomplete, Scene, Workload

Value = TypeVar("Value")
Progress = Callable[[str, int, int], None]
"""What is running, the number of steps that are done, and of all."""
ALONE = "client alone"
"""Among the contestants of a workload: no broker, librdkafka's mock in the process of the client."""
_START = "start"
_IDLE_S = 10.0
_COUNTED_PART = 5
"""Syncs are counted over a fifth of the operations: they need no clock."""
_EXPECTED = (KafkaException, Incomplete, BrokerFailed, OSError, BufferError, subprocess.SubprocessError)


@dataclass(frozen=True, slots=True)
class Sample:
    """One workload on one contestant in one round."""

    value: float
    """A rate, or the median time of an operation in ms."""
    p99_ms: float | None
    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float


@dataclass(slots=True)
class Results:
    """Samples and counts by workload, then by contestant, both by key."""

    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    syncs: dict[str, dict[str, float]] = field(default_factory=dict)
    """For each operation."""
    start_ms: dict[str, list[float]] = field(default_factory=dict)
    idle_mb: dict[str, float] = field(default_factory=dict)
    idle_cpu_percent: dict[str, float] = field(default_factory=dict)
    """Of one processor."""
    final_mb: dict[str, float] = field(default_factory=dict)
    failures: dict[str, dict[str, str]] = field(default_factory=dict)
    """By contestant, then by workload or by what else could not be done."""


@dataclass(frozen=True, slots=True)
class Plan:
    workloads: Sequence[Workload]
    contestants: Sequence[Contestant]
    rounds: int
    scale: int
    """The counts of operations are divided by it."""
    limit_s: float
    """For one workload on one contestant."""
    place: Path
    """A directory for all data, which is emptied."""
    settle: Callable[[], None] = os.sync
    """Called before each measurement."""
    counts_syncs: bool = True

    @property
    def steps(self) -> int:
        measured = (self.rounds + 1) * len(self.workloads) + self.rounds + 1
        alone = (self.rounds + 1) * sum(workload.runs_on_mock for workload in self.workloads)
        return (measured + self.counts_syncs) * len(self.contestants) + alone


def run(plan: Plan, progress: Progress) -> Results:
    return _Run(plan, progress).all()


class _Run:
    def __init__(self, plan: Plan, progress: Progress) -> None:
        self._plan = plan
        self._progress = progress
        self._done = 0
        self._results = Results()
        self._brokers: dict[str, Broker] = {}

    def all(self) -> Results:
        shutil.rmtree(self._plan.place, ignore_errors=True)
        try:
            self._start()
            for number, workload, contestants in turns(self._plan.rounds, self._plan.workloads, self._plan.contestants):
                what = f"{f'round {number} of {self._plan.rounds}' if number else 'warm-up'}: {workload.title}"
                for contestant in contestants:
                    self._step(f"{what}: {contestant.name}")
                    sample = self._guard(contestant.key, workload.key, self._measure, workload)
                    self._keep(sample if number else None, workload, contestant.key)
                if workload.runs_on_mock:
                    self._step(f"{what}: {ALONE}")
                    sample = self._guard(ALONE, workload.key, self._measure_alone, workload)
                    self._keep(sample if number else None, workload, ALONE)
            for broker in self._brokers.values():
                self._guard(broker.contestant.key, "memory", self._weigh)
        finally:
            for broker in self._brokers.values():
                broker.stop()
        for contestant in self._plan.contestants if self._plan.counts_syncs else ():
            self._step(f"counting syncs: {contestant.name}")
            self._guard(contestant.key, "syncs", self._count_syncs)
        shutil.rmtree(self._plan.place, ignore_errors=True)
        return self._results

    def _step(self, what: str) -> None:
        self._progress(what, self._done, self._plan.steps)
        self._done += 1

    def _guard(self, key: str, what: str, step: Callable[..., Value], *arguments: object) -> Value | None:
        """What `step` returns for this contestant, or None once it, or the start, has failed."""
        failures = self._results.failures.setdefault(key, {})
        if what in failures or _START in failures:
            return None
        try:
            return step(key, *arguments)
        except _EXPECTED as error:
            failures[what] = explained(error)
            return None

    # -- starts

    def _start(self) -> None:
        """As many starts as rounds, each on an empty directory; the last ones stay."""
        for number in range(self._plan.rounds):
            for contestant in rotated(self._plan.contestants, number):
                self._step(f"start {number + 1} of {self._plan.rounds}: {contestant.name}")
                self._guard(contestant.key, _START, self._start_one, contestant, number)
        for contestant in self._plan.contestants:
            self._step(f"idle: {contestant.name}")
            self._guard(contestant.key, _START, self._idle)

    def _start_one(self, key: str, contestant: Contestant, number: int) -> None:
        if key in self._brokers:
            self._brokers.pop(key).stop()
        self._brokers[key] = broker = Broker(contestant, self._plan.place / f"{key}-{number}")
        self._results.start_ms.setdefault(key, []).append(broker.start_ms)

    def _idle(self, key: str) -> None:
        """Before its first client; then the topics are created."""
        broker = self._brokers[key]
        before_s, started_s = broker.cpu_s(), time.monotonic()
        time.sleep(_IDLE_S / self._plan.scale)
        self._results.idle_cpu_percent[key] = 100 * (broker.cpu_s() - before_s) / (time.monotonic() - started_s)
        self._results.idle_mb[key] = broker.resident_mb()
        client.prepare(self._scene(broker, self._filled()))

    def _weigh(self, key: str) -> None:
        self._results.final_mb[key] = self._brokers[key].resident_mb()

    # -- workloads

    def _scene(self, broker: Broker, count: int) -> Scene:
        return Scene(
            broker.bootstrap, count, time.monotonic() + self._plan.limit_s, Clock(broker.cpu_s, broker.sync_count)
        )

    def _keep(self, sample: Sample | None, workload: Workload, key: str) -> None:
        if sample is not None:
            keep(self._results.samples, workload.key, key, sample)

    def _filled(self) -> int:
        return client.filled_count(self._plan.workloads, self._plan.scale)

    def _measure(self, key: str, workload: Workload) -> Sample:
        broker = self._brokers[key]
        broker.check()
        self._plan.settle()
        scene = self._scene(broker, workload.scaled(self._plan.scale))
        if workload.over_tls:
            scene = replace(scene, over_tls=broker.over_tls)
        workload.run(scene)
        return sample_of(workload, scene.count, scene.clock)

    def _measure_alone(self, _: str, workload: Workload) -> Sample:
        count = workload.scaled(self._plan.scale)
        scene = Scene("", count, time.monotonic() + self._plan.limit_s, is_mock=True)
        workload.run(scene)
        return sample_of(workload, count, scene.clock)

    def _count_syncs(self, key: str) -> None:
        if shutil.which("strace") is None:
            raise BrokerFailed("strace is not installed here")
        contestant = self._brokers[key].contestant
        broker = Broker(contestant, self._plan.place / f"{key}-syncs", counts_syncs=True)
        try:
            client.prepare(self._scene(broker, self._filled()))
            for workload in self._plan.workloads:
                if workload.key not in self._results.failures[key]:
                    self._guard(contestant.key, f"syncs of {workload.title}", self._count_syncs_of, broker, workload)
        finally:
            broker.stop()

    def _count_syncs_of(self, key: str, broker: Broker, workload: Workload) -> None:
        scene = self._scene(broker, workload.scaled(self._plan.scale * _COUNTED_PART))
        workload.run(scene)
        self._results.syncs.setdefault(workload.key, {})[key] = scene.clock.syncs / scene.count


def sample_of(workload: Workload, count: int, clock: Clock) -> Sample:
    if workload.rate is not None:
        return Sample(count * workload.rate[1] / clock.wall_s, None, clock.wall_s, clock.broker_s, clock.client_s)
    p99_ms = quantiles(clock.durations, n=100, method="inclusive")[98] * 1000
    return Sample(median(clock.durations) * 1000, p99_ms, clock.wall_s, clock.broker_s, clock.client_s)


def explained(error: BaseException) -> str:
    """In one line."""
    text = error.args[0].str() if isinstance(error, KafkaException) else str(error)
    return " ".join(text.split())[:200] or type(error).__name__
