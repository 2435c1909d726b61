"""`make bench`: arguments, progress on stderr, tables on stdout, and docs/compare/performance.md after a whole run.

ARGS='--rounds 5'              more than the three rounds of a whole run
ARGS=--quick                   one round with a fiftieth of each workload: does it work here?
ARGS='--only produce-wait'     these workloads (several with commas)
ARGS='--contestants kfake,kafka'
ARGS=--tls                     a few workloads with TLS and without, on this broker and Kafka, to its own block there
ARGS='--json FILE'             every number of every round
"""

import argparse
import json
import mmap
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Protocol, TypeVar

import confluent_kafka
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.peers.contestants import CONTESTANTS, KAFKA, PLACE, WITH_TLS, Contestant
from bench.peers.in_process import measured
from bench.peers.report import Report, number
from bench.peers.run import Plan, run
from bench.peers.workloads import TLS_WORKLOADS, WORKLOADS
from tools.interop import Unavailable

_ROUNDS = 3
_QUICK_SCALE = 50
_LIMIT_S, _QUICK_LIMIT_S = 60.0, 10.0
_PROBES = 300
_TOUCHED_BYTES = 12 << 30
_TOUCHED_PART = 0.6


class _Keyed(Protocol):
    @property
    def key(self) -> str: ...


Row = TypeVar("Row", bound=_Keyed)


def chosen(rows: Sequence[Row], keys: str | None, what: str) -> list[Row]:
    """Those of the table that are named, in its order; all without names. Raises argparse.ArgumentTypeError."""
    wanted = None if keys is None else keys.split(",")
    known = [row.key for row in rows]
    unknown = sorted(set(wanted or ()) - set(known))
    if unknown:
        raise argparse.ArgumentTypeError(f"no {what} is called {', '.join(unknown)}; there are {', '.join(known)}")
    return [row for row in rows if wanted is None or row.key in wanted]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, help=f"{_ROUNDS} unless given, 1 with --quick")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", metavar="WORKLOADS")
    parser.add_argument("--contestants")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.rounds is None:
        options.rounds = 1 if options.quick else _ROUNDS
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json: there is no directory {options.json.parent}")
    options.is_whole = not (options.quick or options.only or options.contestants or options.rounds < _ROUNDS)
    try:
        options.only = chosen(TLS_WORKLOADS if options.tls else WORKLOADS, options.only, "workload")
        contestants = WITH_TLS if options.tls else CONTESTANTS
        options.contestants = chosen(contestants, options.contestants, "contestant")
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return options


def available(contestants: Sequence[Contestant]) -> tuple[dict[str, str], dict[str, str]]:
    """Versions by key, and by name why the others are left out."""
    versions, left_out = {}, {}
    for contestant in contestants:
        try:
            versions[contestant.key] = contestant.prepare()
        except Unavailable as error:
            left_out[contestant.name] = str(error)
    return versions, left_out


def circumstances(rounds: int, place: Path) -> list[str]:
    model = platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(": ")[2]
            break
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    times_ms = sorted(probe_disk(place))
    raw = f"{number(median(times_ms))} ms (p99 {number(times_ms[len(times_ms) * 99 // 100])} ms)"
    count = f"{rounds} round{'s' * (rounds > 1)}"
    librdkafka = f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
    return [
        f"{len(os.sched_getaffinity(0))} cores ({model}), {memory_gb:.0f} GB of memory, load at the start "
        f"{os.getloadavg()[0]:.1f}; client and broker share them",
        f"One append of 100 bytes and fdatasync on this disk: {raw}",
        f"Client: {librdkafka}; {count} after a warm-up, one broker busy at a time; written by `make bench`",
    ]


def touch_memory() -> None:
    """Use once what a run will use. A virtual machine gets its pages from the host when it first touches them, which
    takes longer than all else that is done with a batch: who came first would be measured, not who is faster."""
    free_bytes = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    size_bytes = min(_TOUCHED_BYTES, int(free_bytes * _TOUCHED_PART))
    mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def probe_disk(place: Path) -> list[float]:
    """Milliseconds of an append to a file and its fdatasync."""
    place.mkdir(parents=True, exist_ok=True)
    path, times_ms = place / "probe", []
    with path.open("wb", buffering=0) as file:
        for _ in range(_PROBES):
            started_s = time.perf_counter()
            file.write(bytes(100))
            os.fdatasync(file.fileno())
            times_ms.append((time.perf_counter() - started_s) * 1000)
    path.unlink()
    return times_ms


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        print("make bench needs Linux: it reads processor time and memory from /proc", file=sys.stderr)
        return 1
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=3600) as progress:
        task: TaskID = progress.add_task("preparing the contestants", total=None)
        PLACE.mkdir(exist_ok=True)
        versions, left_out = available(options.contestants)
        contestants = [each for each in options.contestants if each.key in versions]
        if not contestants:
            print("\n".join(f"{name}: {reason}" for name, reason in left_out.items()), file=sys.stderr)
            return 1
        facts = circumstances(options.rounds, PLACE)
        if not options.quick:
            progress.update(task, description="touching the memory")
            touch_memory()
        scale, limit_s = (_QUICK_SCALE, _QUICK_LIMIT_S) if options.quick else (1, _LIMIT_S)
        plan = Plan(
            options.only, contestants, options.rounds, scale, limit_s, PLACE / "data", counts_syncs=not options.tls
        )
        results = run(
            plan, lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
        )
        progress.update(task, description="processor time without sockets")
        in_process = {} if options.tls else measured(versions)
    report = Report(options.only, contestants, versions, left_out, results, scale, facts, in_process)
    print(report.tls_text() if options.tls else report.text())
    if options.json is not None:
        found = {"facts": facts, "versions": versions, "left_out": left_out, "results": asdict(results)}
        found["in_process_us"] = in_process
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if options.is_whole and KAFKA in versions:
        write = report.write_tls if options.tls else report.write
        print(f"written to {write()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
