"""`make bench WHAT=clients`: rounds, tables on stdout, and its block of docs/compare/performance.md after a whole run.

ARGS='--rounds 9'              more than the five rounds of a whole run
ARGS=--quick                   one round with a twentieth of each workload: does it work here?
ARGS='--clients oncelog,aiokafka'
ARGS='--json FILE'             every number of every round
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.clients.drivers import CONFLUENT_KAFKA, BlockingDriver, Clock
from bench.clients.report import Report
from bench.clients.workers import CLIENTS, COMPILED, INTERPRETED, Client, Worker
from bench.harness import machine
from bench.harness.command import Arguments, available, progress_bar, save
from bench.harness.interpreters import make_place, printed
from bench.harness.rounds import counted, keep, turns
from bench.peers.broker import Broker
from bench.peers.contestants import CONTESTANTS

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
    """Each turn runs a workload once with each client."""
    _prepare(bootstrap, scale)
    workers: list[Worker] = []
    found: Samples = {}
    try:
        workers += [Worker(client, bootstrap, place) for client in clients]
        for number, workload, in_order in turns(rounds, WORKLOADS, workers):
            what = {"method": workload.method, "topic": workload.topic, "count": workload.count // scale}
            if not workload.method.startswith("consume"):
                what["size"] = workload.size
            for worker in in_order:
                progress(f"round {number or 'warm-up'}: {workload.title}: {worker.client.name}")
                sample = worker.ask(**what)
                if number:
                    keep(found, workload.key, worker.client.key, sample)
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
            BlockingDriver(CONFLUENT_KAFKA, bootstrap).produce(workload.topic, value, count, Clock())


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = Arguments("make bench WHAT=clients", __doc__, rounds=_ROUNDS)
    known.parser.add_argument("--clients")
    options = known.parse(arguments)
    options.is_whole = options.is_whole and not options.clients
    options.clients = known.chosen(CLIENTS, options.clients, "client")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    loads = [machine.load()]
    with progress_bar() as bar, tempfile.TemporaryDirectory(prefix="oncelog-bench-clients-") as scratch:
        bar.show("preparing the clients")
        versions, left_out = available(options.clients)
        clients = [each for each in options.clients if each.key in versions]
        brokers, _ = available([each for each in CONTESTANTS if each.key in _BROKERS])
        contestant = next(each for key in _BROKERS for each in CONTESTANTS if each.key == key and key in brokers)
        place = make_place(Path(scratch) / "place")
        broker = Broker(contestant, Path(scratch) / "broker")
        try:
            scale = _QUICK_SCALE if options.quick else 1
            samples = measure(broker.bootstrap, clients, options.rounds, scale, place, bar.show)
        finally:
            broker.stop()
        bar.show("steps of a record")
        ours = [each for each in clients if each.key in (INTERPRETED, COMPILED)]
        parts = {each.key: printed(each.python, "bench.clients.parts", place) for each in ours}
    loads.append(machine.load())
    facts = _facts(contestant.name, options.rounds, loads, versions, left_out)
    report = Report(WORKLOADS, clients, samples, scale, parts, facts)
    print(report.text())
    save(options.json, {"facts": facts, "samples": _without_durations(samples), "parts": parts})
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
        f"{machine.cores()}, load {loads[0]:.1f} at the start and {loads[-1]:.1f} at the end; "
        f"{counted(rounds)}, one client busy at a time",
        f"Broker of all: {broker}. Clients: {told}. Written by `make bench WHAT=clients`",
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
