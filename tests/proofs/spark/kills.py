"""Drivers that are really killed, one after the other, on one query: each continues what the one before it left.

A driver is stopped inside a batch: ours at a step of publishing, the others while one of their requests is held by the
broker. Then its Python process, its JVM or both are killed (-9). Where only the JVM is killed, what it has left behind
continues publishing: the Python process of `exactly_once`, or the process that commits for `format("oncelog")`.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.pipeline.sink.checkpoint import Checkpoint
from tests.proofs.spark.driver import THERE
from tests.proofs.spark.page import Found, compare
from tests.proofs.spark.scene import FORMAT, OURS, SINKS, Oncelog, outputs
from tests.spark.scenes import create, expected, make_input
from tests.support.spark.driver_death import deaths_with_table

PYTHON, JVM, BOTH = "its Python process", "its JVM", "both"
KILLED = (PYTHON, JVM, BOTH)
_WAIT_MS = 20_000
_WAITS = 9
"""Three minutes: a driver starts in ten seconds, and in a minute on a busy machine."""
_AT_MOST_TWICE = 2
"""How often a driver reaches the step or the request where it is killed: it can be through so many batches by then."""


@dataclass
class Driver:
    """A running `driver`."""

    process: "subprocess.Popen[str]"
    jvm: int = 0
    held: int | None = None
    """The rule of the broker that holds its request."""

    def kill(self, what: str) -> None:
        if what == BOTH:
            os.killpg(self.process.pid, signal.SIGKILL)
        else:
            os.kill(self.jvm if what == JVM else self.process.pid, signal.SIGKILL)

    def say_go_on(self) -> None:
        with suppress(OSError):  # it is dead
            if self.process.stdin is not None:
                self.process.stdin.write("\n")
                self.process.stdin.flush()

    def end(self) -> None:
        """Kill the driver and all that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


@dataclass
class Chain:
    """A query of one sink, and the drivers that it has had."""

    broker: Oncelog
    directory: Path
    sink: str
    kills: int
    first: int = 0
    """The number of the first kill, and the seed."""
    random: Random = field(init=False)
    topic: str = field(default_factory=lambda: f"killed-{os.urandom(4).hex()}")
    lost: int = 0
    doubled: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.first)

    @property
    def batches(self) -> int:
        return _AT_MOST_TWICE * (self.kills + 1)

    def prepare(self) -> None:
        self.directory.mkdir()
        create(self.broker, self.topic)
        make_input(self.directory / "in", self.batches)

    def start(self, *, stops: bool) -> Driver:
        """A driver; if it `stops`, it is returned when it has come to its place."""
        command = [sys.executable, "-m", "tests.proofs.spark.driver", "--directory", str(self.directory)]
        command += ["--sink", self.sink, "--bootstrap", self.broker.bootstrap, "--topic", self.topic]
        nth = self.random.randint(1, _AT_MOST_TWICE)
        held = None
        if stops and self.sink == OURS:
            place = self.random.choice(deaths_with_table())
            assert place.step is not None
            command += ["--stop", place.step.value, place.moment, str(nth)]
        elif stops:
            held = self._hold(nth)
        with (self.directory / "driver.log").open("a") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        driver = Driver(process, held=held)
        driver.jvm = int(self._line(driver) or 0)
        if held is not None:
            faults = self.broker.faults
            assert any(faults.wait_fired(held, _WAIT_MS).fired_count for _ in range(_WAITS)), self._log()
        elif stops:
            assert self._line(driver) == THERE, self._log()
        return driver

    def _hold(self, nth: int) -> int:
        apis = (ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.END_TXN) if self.sink == FORMAT else (ApiKey.PRODUCE,)
        point = self.random.choice((Point.REQUEST, Point.ANSWER))
        return self.broker.faults.plant(Rule(point, Action.HOLD, Selector(api=self.random.choice(apis)), nth=nth))

    def _line(self, driver: Driver) -> str:
        return driver.process.stdout.readline().strip() if driver.process.stdout is not None else ""

    def _log(self) -> str:
        return (self.directory / "driver.log").read_text()[-4000:]

    def let_go_on(self, dead: Driver) -> None:
        """Let the dead driver's held request arrive, and the processes that it has left behind continue."""
        dead.say_go_on()
        if dead.held is not None:
            self.broker.faults.remove(dead.held)

    def outputs(self) -> list[Counter[str]]:
        return outputs(self.broker, self.topic, self.directory, self.sink)

    def measure(self) -> tuple[int, int]:
        """Rows lost and doubled since the last time: of batches that Spark has noted as done."""
        done = {str(each) for each in Checkpoint(str(self.directory / "checkpoint")).batches("commits")}
        noted = {row: 1 for row in expected(self.batches) if row.partition(":")[0] in done}
        lost, doubled = compare(self.outputs(), expected(self.batches), noted)
        since = lost - self.lost, doubled - self.doubled
        self.lost, self.doubled = lost, doubled
        return since

    def run(self) -> Iterator[Found]:
        """One for each kill: what is found when the next driver has come to where it is killed, or to the end."""
        self.prepare()
        drivers: list[Driver] = []
        began_s = time.monotonic()
        what = ""
        try:
            for seed in range(self.kills + 1):
                drivers.append(self._next(drivers[-1] if drivers else None, stops=seed < self.kills))
                if seed:
                    drivers[-2].end()
                    lost, doubled = self.measure()
                    seconds = round(time.monotonic() - began_s, 2)
                    fault = f"the driver is killed: {what}"
                    yield Found("kills", "oncelog", fault, self.sink, self.first + seed - 1, lost, doubled, 0, seconds)
                if seed < self.kills:
                    what, began_s = KILLED[(self.first + seed) % len(KILLED)], time.monotonic()
                    drivers[-1].kill(what)
            assert compare(self.outputs(), expected(self.batches)) == (self.lost, self.doubled)
        finally:
            for driver in drivers:
                driver.end()

    def _next(self, dead: Driver | None, *, stops: bool) -> Driver:
        """Start the next driver. What the dead one has left continues before that, or when the next is in a batch."""
        goes_on_early = self.random.random() < 0.5
        if dead is not None and goes_on_early:
            self.let_go_on(dead)
        driver = self.start(stops=stops)
        if dead is not None and not goes_on_early:
            self.let_go_on(dead)
        if not stops and driver.process.wait(300) != 0:
            raise AssertionError(self._log())
        return driver


def run(work: Path, broker: Oncelog, first: int, kills: int, sinks: tuple[str, ...]) -> Iterator[Found]:
    """Kills so many drivers of each sink of ours, and a fifth as many of the others."""
    for sink in sinks:
        count = kills if sink in (OURS, FORMAT) else max(1, kills // 5)
        yield from Chain(broker, work / f"chain-{SINKS.index(sink)}", sink, count, first).run()
