"""`make bench-clients`: rounds, tables on stdout, and its block of docs/compare/performance.md after a whole run.

ARGS='--rounds 9'              more than the five rounds of a whole run
ARGS=--quick                   one round with a twentieth of each workload: does it work here?
ARGS='--clients oncelog,aiokafka'
ARGS='--json FILE'             every number of every round
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.clients.drivers import Clock, ConfluentKafka
from bench.clients.report import Report
from bench.clients.workers import CLIENTS, COMPILED, INTERPRETED, Client, Worker, make_place, measured_parts
from bench.peers.__main__ import available, chosen
from bench.peers.broker import Broker
from bench.peers.contestants import CONTESTANTS
from bench.peers.run import rotated

_ROUNDS = 5
_QUICK_SCALE = 20
_READ_PASSES = 5
"""As many as are produced can be read in a twentieth of a second, of which what was fetched ahead of the clock, and the
last fetch, would be a large part."""
_BROKERS = ("compiled-os", "oncelog-os")
"""The first that can be had: the same for all clients, and as quick as it gets."""


@dataclass(frozen=True, slots=True)
class Workload:
    key: str
    title: str
    method: str
    size: int
    count: int

    @property
    def topic(self) -> str:
        return f"{'filled' if self.method.startswith('consume') else self.method.replace('_', '-')}-{self.size}"


def _rows() -> list[Workload]:
    rows = []
    for size, name, count in ((100, "100 B", 200_000), (1_000, "1 kB", 100_000)):
        rows.append(Workload(f"produce-{size}", f"produce {name}", "produce", size, count))
        read = _READ_PASSES * count
        rows.append(Workload(f"consume-{size}", f"consume {name}, one by one", "consume", size, read))
        rows.append(Workload(f"batches-{size}", f"consume {name}, batches", "consume_batches", size, read))
    rows.append(Workload("wait", "produce 100 B and wait", "produce_and_wait", 100, 2_000))
    return rows


WORKLOADS = tuple(_rows())
Samples = dict[str, dict[str, list[dict[str, Any]]]]
"""By workload, then by client, one a round."""


def measure(
    bootstrap: str, clients: Sequence[Client], rounds: int, scale: int, place: Path, progress: Callable[[str], None]
) -> Samples:
    """Each round runs each workload once with each client, in an order that rotates; the first one is not counted."""
    _prepare(bootstrap, scale)
    workers: list[Worker] = []
    found: Samples = {}
    try:
        workers += [Worker(client, bootstrap, place) for client in clients]
        for number in range(rounds + 1):
            for position, workload in enumerate(WORKLOADS):
                for worker in rotated(workers, number + position):
                    progress(f"round {number or 'warm-up'}: {workload.title}: {worker.client.name}")
                    what = {"method": workload.method, "topic": workload.topic, "count": workload.count // scale}
                    if not workload.method.startswith("consume"):
                        what["size"] = workload.size
                    sample = worker.ask(**what)
                    if number:
                        found.setdefault(workload.key, {}).setdefault(worker.client.key, []).append(sample)
    finally:
        for worker in workers:
            worker.stop()
    return found


def _prepare(bootstrap: str, scale: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = sorted({workload.topic for workload in WORKLOADS})
    for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        created.result()
    for workload in WORKLOADS:
        if workload.method == "consume":
            value, count = bytes(workload.size), workload.count // scale
            ConfluentKafka(bootstrap).produce(workload.topic, value, count, Clock())


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench-clients", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--clients")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    options.is_whole = not (options.quick or options.clients or (options.rounds or _ROUNDS) < _ROUNDS)
    options.rounds = options.rounds or (1 if options.quick else _ROUNDS)
    try:
        options.clients = chosen(CLIENTS, options.clients, "client")
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    loads = [os.getloadavg()[0]]
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with (
        Progress(*columns, console=Console(stderr=True), transient=True) as bar,
        tempfile.TemporaryDirectory(prefix="oncelog-bench-clients-") as scratch,
    ):
        task = bar.add_task("preparing the clients", total=None)
        versions, left_out = available(options.clients)
        clients = [each for each in options.clients if each.key in versions]
        brokers, _ = available([each for each in CONTESTANTS if each.key in _BROKERS])
        contestant = next(each for key in _BROKERS for each in CONTESTANTS if each.key == key and key in brokers)
        place = make_place(Path(scratch) / "place")
        broker = Broker(contestant, Path(scratch) / "broker")
        try:
            scale = _QUICK_SCALE if options.quick else 1
            samples = measure(
                broker.bootstrap, clients, options.rounds, scale, place, lambda what: bar.update(task, description=what)
            )
        finally:
            broker.stop()
        bar.update(task, description="steps of a record")
        ours = [each for each in clients if each.key in (INTERPRETED, COMPILED)]
        parts = {each.key: measured_parts(each.python, place) for each in ours}
    loads.append(os.getloadavg()[0])
    facts = _facts(contestant.name, options.rounds, loads, versions, left_out)
    report = Report(WORKLOADS, clients, samples, scale, parts, facts)
    print(report.text())
    if options.json is not None:
        found = {"facts": facts, "samples": _without_durations(samples), "parts": parts}
        options.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    if options.is_whole and not left_out:
        report.write()
        print("written to docs/compare/performance.md and docs/images", file=sys.stderr)
    return 0


def _facts(
    broker: str, rounds: int, loads: Sequence[float], versions: Mapping[str, str], left_out: Mapping[str, str]
) -> list[str]:
    names = {each.key: each.name for each in CLIENTS}
    told = ", ".join(
        f"{names[key]} {said.split()[-1] if key != COMPILED else ''}".strip() for key, said in versions.items()
    )
    return [
        f"{len(os.sched_getaffinity(0))} cores, load {loads[0]:.1f} at the start and {loads[-1]:.1f} at the end; "
        f"{rounds} round{'s' * (rounds > 1)} after a warm-up, one client busy at a time",
        f"Broker of all: {broker}. Clients: {told}. Written by `make bench-clients`",
        *(f"{name} is left out: {reason}" for name, reason in left_out.items()),
    ]


def _without_durations(samples: Samples) -> Samples:
    return {
        key: {
            client: [
                {**sample, "durations_s": median(sample["durations_s"]) if sample["durations_s"] else None}
                for sample in each
            ]
            for client, each in by_client.items()
        }
        for key, by_client in samples.items()
    }


if __name__ == "__main__":
    sys.exit(main())
