"""`oncelog demo crash`: why PREPARE_COMMIT is the point of no return.

Owns: the experiment, its drawing, the verdict. A daemon in a temporary directory is stopped in the middle of a commit,
killed with SIGKILL, and restarted: once before PREPARE_COMMIT is written, once after. Nothing is simulated: the commit
is that of a real producer in its own process, the disk contents are read from the files, and what committed readers see
is read by a consumer. `oncelog.faults` holds the request, then the markers.
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from oncelog.client import Admin, Consumer, KafkaError, NewTopic, Producer, TopicPartition
from oncelog.faults import Action, ApiKey, FaultsRefused, Point, Rule, Selector
from oncelog.protocol.errors import ProtocolError
from oncelog.tools.demo.daemon import DemoDaemon
from oncelog.tools.demo.stage import DemoFailed, Stage
from oncelog.tools.log.states import partition_states, transaction_states
from oncelog.tools.terminal import marked, say, say_json

TOPIC = "orders"
RECORDS = ("left leg", "right leg")
"""The records, one for each partition of the topic: all or nothing."""
_PATIENCE_S = 20.0
_POLL_MS = 500


@dataclass(frozen=True, slots=True)
class Step:
    """All that can be observed at one moment of the experiment."""

    title: str
    coordinator: str | None
    """The state of the transaction; None while no broker runs."""
    without_marker: list[str]
    transaction_log: list[str]
    """The records of the transaction in `__transaction_state`, on disk."""
    partitions: dict[str, list[str]]
    """The contents of the partitions, on disk: records and markers."""
    committed: list[str] | None
    """The records that a read_committed consumer reads; None while no broker runs."""


@dataclass(frozen=True, slots=True)
class Scene:
    title: str
    expected: str
    steps: list[Step]
    is_as_expected: bool


class Experiment:
    """One transactional id, from its first record to the end of its transaction, across a kill."""

    def __init__(self, daemon: DemoDaemon, transactional_id: str, on_step: Callable[[Step], None]) -> None:
        self._daemon = daemon
        self._transactional_id = transactional_id
        self._topic = f"{TOPIC}-{transactional_id}"
        self._on_step = on_step
        self.steps: list[Step] = []

    def run(self, *, killed_after_prepare: bool) -> None:
        """Raises DemoFailed when a step does not happen."""
        daemon = self._daemon
        asyncio.run(_create(daemon.bootstrap, self._topic))
        command = ("oncelog.tools.demo.crash", daemon.bootstrap, self._topic, self._transactional_id)
        # In its own process: it waits before it commits, and reports what it knows.
        with Stage("producer", *command, is_quiet=True) as writer:
            _wait_for(writer, "written")
            self._observe("a transaction is open: one record in each of two partitions")
            held = daemon.faults.plant(self._hold(killed_after_prepare))
            writer.write_line()
            if killed_after_prepare:
                _wait_for(writer, "committed")
                self._observe("commit: PREPARE_COMMIT is on disk, the producer has its response, the markers are held")
            else:
                self._check_fired(held)
                self._observe("commit: the request has arrived and is held before it is handled")
            daemon.kill()
        self._observe("kill -9, of the broker and of the producer")
        if killed_after_prepare:
            daemon.start(self._hold(after_prepare=True))
            self._observe("restarted: the coordinator finds PREPARE_COMMIT; the markers are held again")
            daemon.faults.remove_all()
            self._wait_for("CompleteCommit")
            self._observe("the markers are released and written; no client had to do anything")
            return
        daemon.start()
        self._observe("restarted: the commit request is lost, the transaction is still open")
        # It gets its new epoch once the abort is complete.
        asyncio.run(_come_back(daemon.bootstrap, self._transactional_id))
        self._observe("the producer comes back with its transactional id: its open transaction is aborted")

    def _hold(self, after_prepare: bool) -> Rule:
        of = self._transactional_id
        if after_prepare:
            return Rule(Point.MARKER, Action.HOLD, Selector(transactional_id=of), times=None)
        return Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.END_TXN, transactional_id=of))

    def _check_fired(self, number: int) -> None:
        if not self._daemon.faults.wait_fired(number).fired_count:
            raise DemoFailed("the commit did not reach the broker")

    def _wait_for(self, state: str) -> None:
        """Wait until COMPLETE is logged: a start does that by itself, shortly after it is ready."""
        until_s = time.monotonic() + _PATIENCE_S
        while self._daemon.faults.state(self._transactional_id) != state:
            if time.monotonic() > until_s:
                raise DemoFailed(f"the transaction did not reach {state} within {_PATIENCE_S:g} s")
            time.sleep(0.01)

    def _observe(self, title: str) -> None:
        daemon = self._daemon
        coordinator: str | None = None
        without_marker: list[str] = []
        committed: list[str] | None = None
        if daemon.is_running:
            for shown in daemon.faults.transactions():
                if shown["transactional_id"] == self._transactional_id:
                    coordinator, without_marker = shown["state"], shown["without_marker"]
            committed = asyncio.run(_read_committed(daemon.bootstrap, self._topic))
        step = Step(
            title,
            coordinator,
            without_marker,
            transaction_states(daemon.data_dir, self._transactional_id),
            partition_states(daemon.data_dir, self._topic),
            committed,
        )
        self.steps.append(step)
        self._on_step(step)


def _wait_for(writer: Stage, word: str) -> None:
    if (line := writer.read_line()) != word:
        raise DemoFailed(f"the producer said {line!r}, not {word!r}")


async def _write(bootstrap: str, topic: str, transactional_id: str) -> None:
    """Write, commit once a line has come, and report both: the process of the producer."""
    async with Producer(bootstrap, transactional_id=transactional_id) as producer:
        async with producer.transaction() as transaction:
            for partition, value in enumerate(RECORDS):
                await transaction.send(topic, value.encode(), partition=partition)
            sys.stdout.write("written\n")
            sys.stdout.flush()
            await asyncio.to_thread(sys.stdin.readline)
        sys.stdout.write("committed\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)


async def _create(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.create_topics(NewTopic(topic, len(RECORDS)))


async def _come_back(bootstrap: str, transactional_id: str) -> None:
    async with Producer(bootstrap, transactional_id=transactional_id) as producer, producer.transaction():
        pass


async def _read_committed(bootstrap: str, topic: str) -> list[str]:
    """Return every committed record, partition after partition."""
    values = []
    for number in range(len(RECORDS)):
        partition = TopicPartition(topic, number)
        async with Consumer(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                values += [(record.value or b"").decode() for record in await consumer.poll(_POLL_MS)]
    return values


# --- the verdict ------------------------------------------------------------------------------------------------------

_SCENES = (
    (False, "killed before PREPARE_COMMIT is written", "aborted: no commit was acknowledged, and no half is visible"),
    (True, "killed after PREPARE_COMMIT is written", "committed: it was acknowledged, though no marker was written"),
)


def run_experiment(on_scene: Callable[[str], None], on_step: Callable[[Step], None]) -> Iterator[Scene]:
    """Run both scenes, each on its own daemon. Raises DemoFailed."""
    for after_prepare, title, expected in _SCENES:
        on_scene(title)
        with tempfile.TemporaryDirectory(prefix="oncelog-demo-") as directory, DemoDaemon(Path(directory)) as daemon:
            experiment = Experiment(daemon, "committed" if after_prepare else "aborted", on_step)
            experiment.run(killed_after_prepare=after_prepare)
            yield Scene(title, expected, experiment.steps, _is_as_expected(experiment.steps, after_prepare))


def _is_as_expected(steps: list[Step], after_prepare: bool) -> bool:
    """Whether every step, not only the end, is as expected."""
    killed, end = steps[2], steps[-1]
    nothing_seen = all(step.committed in ([], None) for step in steps[:3])
    no_marker = all("COMMIT" not in held and "ABORT" not in held for held in killed.partitions.values())
    is_prepared = "PrepareCommit" in killed.transaction_log
    if after_prepare:
        ends_well = end.committed == list(RECORDS) and end.transaction_log[-1] == "CompleteCommit"
    else:
        ends_well = end.committed == [] and "CompleteAbort" in end.transaction_log
    return nothing_seen and no_marker and is_prepared is after_prepare and ends_well


# --- drawing ----------------------------------------------------------------------------------------------------------


def _draw(step: Step, console: Any) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    running = step.committed is not None
    waiting = f", waiting for markers: {', '.join(step.without_marker)}" if step.without_marker else ""
    coordinator = f"[bold]{marked(step.coordinator or '-')}[/]{marked(waiting)}"
    table.add_row("coordinator", coordinator if running else "[red]not running[/]")
    table.add_row("on disk: __transaction_state", marked(" → ".join(step.transaction_log)))
    for name, held in step.partitions.items():
        table.add_row(marked(f"on disk: {name}"), "  ".join(_coloured(each) for each in held))
    if step.committed is not None:
        table.add_row("read_committed sees", marked(", ".join(step.committed)) or "nothing")
    console.print(f"\n[bold]▸ {step.title}[/]")
    console.print(table)


def _coloured(held: str) -> str:
    colour = {"COMMIT": "green", "ABORT": "red"}.get(held)
    return marked(held) if colour is None else f"[{colour}]◆{held}[/]"


def run(*, as_json: bool, waits: bool) -> int:
    """Run the command; return the exit code: 0 if everything went as expected, 1 if not or if it could not be run."""
    from rich.console import Console

    console = Console(quiet=as_json, emoji=False)

    def on_step(step: Step) -> None:
        _draw(step, console)
        if waits:
            with contextlib.suppress(EOFError):
                console.input("[dim]press Enter to continue[/]")

    scenes: list[Scene] = []
    try:
        for scene in run_experiment(lambda title: console.rule(f"[bold]{title}"), on_step):
            scenes.append(scene)
            mark = "[green]as expected[/]" if scene.is_as_expected else "[red]NOT as expected[/]"
            console.print(f"\n{mark}: {scene.expected}\n")
    except (KafkaError, ProtocolError, DemoFailed, FaultsRefused, OSError) as error:
        say(f"oncelog demo crash: {error}", err=True)
        return 1
    is_good = all(scene.is_as_expected for scene in scenes)
    if as_json:
        report = {"verdict": "as expected" if is_good else "not as expected", "scenes": [asdict(s) for s in scenes]}
        say_json(report)
    else:
        console.print(
            "Whether a transaction commits is decided by one record, PREPARE_COMMIT in __transaction_state. Before it "
            "everything is undone, after it everything is done, whatever crashes.",
            style="dim",
        )
    return 0 if is_good else 1


if __name__ == "__main__":
    asyncio.run(_write(*sys.argv[1:]))
