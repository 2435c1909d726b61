"""`oncelog demo delivery`: the same work in the three delivery modes, under the same faults, and what became of it.

Owns: the faults of a seed, the experiment, its drawing, the verdict. Nothing is simulated: a process copies numbers
from a topic into another (`copier`), it and the broker are killed with SIGKILL, connections are cut before a Produce
request is handled and before it is answered (`oncelog.faults`), and the result is read back.
"""

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from rich.progress import Progress

from oncelog.client import Admin, Consumer, DeliveryMode, NewTopic, Producer, TopicPartition
from oncelog.faults import Action, ApiKey, Point, Rule, Selector
from oncelog.tools.demo.copier import KillAt, source, target
from oncelog.tools.demo.daemon import DemoDaemon
from oncelog.tools.demo.stage import DemoFailed, Stage
from oncelog.tools.terminal import Styled, say, say_json

COUNT = 120
_A_LINE = 60
_PATIENCE_S = 60.0
MODES: tuple[DeliveryMode, ...] = get_args(DeliveryMode)
_PROMISES: dict[DeliveryMode, str] = {
    "at_most_once": "nothing doubled",
    "at_least_once": "nothing lost",
    "exactly_once": "nothing lost, nothing doubled",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: a rule in the broker while a copier runs, which is then killed at a record, or runs to the end."""

    title: str
    rule: Rule | None = None
    kill_at: KillAt = "never"
    number: int = 0

    @property
    def kills_broker(self) -> bool:
        return self.rule is not None and self.rule.action is Action.CRASH


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a mode for the numbers 0 to `COUNT` - 1: how often each is in it."""

    mode: DeliveryMode
    copies: list[int]

    @property
    def lost(self) -> int:
        return self.copies.count(0)

    @property
    def doubled(self) -> int:
        return sum(each - 1 for each in self.copies if each > 1)

    @property
    def keeps_its_promise(self) -> bool:
        may_lose, may_double = self.mode == "at_most_once", self.mode == "at_least_once"
        return (may_lose or not self.lost) and (may_double or not self.doubled)


def faults_of(seed: int) -> list[Fault]:
    """Return the faults, the same for each mode; where they happen depends on the seed."""
    source_of = random.Random(seed)
    places = sorted(source_of.sample(range(5, COUNT - 25), 2))
    produce = Selector(api=ApiKey.PRODUCE)
    lost_answer, lost_request = (Rule(each, Action.DROP, produce) for each in (Point.ANSWER, Point.REQUEST))
    return [
        Fault("an acknowledgement is lost, then the copier is killed within a batch", lost_answer, "within", places[0]),
        Fault(
            "a request is lost, then the copier is killed before it commits a batch", lost_request, "after", places[1]
        ),
        Fault("the broker is killed before it answers", Rule(Point.ANSWER, Action.CRASH, produce)),
    ]


class Experiment:
    """One broker, and each mode in turn."""

    def __init__(self, daemon: DemoDaemon, faults: list[Fault]) -> None:
        self._daemon = daemon
        self._faults = faults

    def run(self, mode: DeliveryMode, on_fault: Callable[[Fault], None]) -> Verdict:
        """Raises DemoFailed when a process does not end."""
        asyncio.run(_fill(self._daemon.bootstrap, mode))
        for fault in self._faults:
            on_fault(fault)
            self._live(mode, fault)
        self._live(mode, Fault("to the end"))
        return Verdict(mode, asyncio.run(_count(self._daemon.bootstrap, mode)))

    def _live(self, mode: DeliveryMode, fault: Fault) -> None:
        """Run one life of the copier."""
        if fault.rule is not None:
            self._daemon.faults.plant(fault.rule)
        command = ("oncelog.tools.demo.copier", self._daemon.bootstrap, mode, fault.kill_at, str(fault.number))
        with Stage(f"copier ({mode}: {fault.title})", *command, is_quiet=True) as copier:
            if fault.kills_broker:
                self._daemon.wait_killed(_PATIENCE_S)
                self._daemon.start()
            copier.wait(_PATIENCE_S)
        if not fault.kills_broker:
            self._daemon.faults.remove_all()


async def _fill(bootstrap: str, mode: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(source(mode), 1, 1), NewTopic(target(mode), 1, 1))
    async with Producer(bootstrap) as producer:
        for number in range(COUNT):
            await producer.send_soon(source(mode), b"%d" % number)


async def _count(bootstrap: str, mode: str) -> list[int]:
    place = TopicPartition(target(mode), 0)
    found: Counter[int] = Counter()
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        while await consumer.position(place) < end:
            found.update(int(each.value or b"-1") for each in await consumer.poll(1_000))
    return [found[number] for number in range(COUNT)]


def run(*, seed: int, as_json: bool) -> int:
    """Run the command; return the exit code: 0 if each mode keeps its promise."""
    faults = faults_of(seed)
    try:
        with tempfile.TemporaryDirectory(prefix="oncelog-demo-") as directory, DemoDaemon(Path(directory)) as daemon:
            verdicts = list(_verdicts(Experiment(daemon, faults), is_quiet=as_json))
    except DemoFailed as error:
        say(f"demo delivery: {error}", err=True)
        return 1
    if as_json:
        say_json(
            {
                "seed": seed,
                "faults": [each.title for each in faults],
                "modes": [{**asdict(each), "lost": each.lost, "doubled": each.doubled} for each in verdicts],
            }
        )
    else:
        _show(seed, faults, verdicts)
    return 0 if all(each.keeps_its_promise for each in verdicts) else 1


def _verdicts(experiment: Experiment, *, is_quiet: bool) -> Iterator[Verdict]:
    with Progress(disable=is_quiet, transient=True) as progress:
        task = progress.add_task("", total=len(MODES) * len(experiment._faults))
        for mode in MODES:

            def on_fault(fault: Fault, mode: str = mode) -> None:
                progress.update(task, advance=1, description=f"{mode}: {fault.title}")

            yield experiment.run(mode, on_fault)


def _show(seed: int, faults: list[Fault], verdicts: list[Verdict]) -> None:
    say(f"{COUNT} numbers are copied from one topic into another, in batches of ten. Seed {seed}:")
    for fault in faults:
        say(f"  - {fault.title}")
    for verdict in verdicts:
        say("")
        say(
            f'delivery="{verdict.mode}": {verdict.lost} lost, {verdict.doubled} doubled; '
            f"promised: {_PROMISES[verdict.mode]}"
        )
        for start in range(0, COUNT, _A_LINE):
            say("  ", *(_cell(each) for each in verdict.copies[start : start + _A_LINE]))
    say("")
    say("Each sign is one number: · copied once, × lost, 2 and more: so often.")


def _cell(copies: int) -> str | Styled:
    if copies == 1:
        return "·"
    return Styled(str(min(copies, 9)), "yellow") if copies else Styled("×", "red")
