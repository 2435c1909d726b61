"""`make bench`: arguments, progress on stderr, tables on stdout, and docs/compare/performance.md after a whole run.

ARGS='--rounds 5'              more than the three rounds of a whole run
ARGS=--quick                   one round with a fiftieth of each workload: does it work here?
ARGS='--only produce-wait'     these workloads (several with commas)
ARGS='--contestants kfake,kafka'
ARGS=--tls                     a few workloads with TLS and without, on this broker and Kafka, to its own block there
ARGS='--json FILE'             every number of every round
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import confluent_kafka

from bench.harness import machine
from bench.harness.command import Arguments, available, progress_bar, save
from bench.harness.rounds import counted
from bench.peers.contestants import CONTESTANTS, KAFKA, PLACE, WITH_TLS
from bench.peers.in_process import measured
from bench.peers.report import Report
from bench.peers.run import Plan, run
from bench.peers.workloads import TLS_WORKLOADS, WORKLOADS

_ROUNDS = 3
_QUICK_SCALE = 50
_LIMIT_S, _QUICK_LIMIT_S = 60.0, 10.0


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    known = Arguments("make bench", __doc__, rounds=_ROUNDS)
    known.parser.add_argument("--only", metavar="WORKLOADS")
    known.parser.add_argument("--contestants")
    known.parser.add_argument("--tls", action="store_true")
    options = known.parse(arguments)
    options.is_whole = options.is_whole and not (options.only or options.contestants)
    options.only = known.chosen(TLS_WORKLOADS if options.tls else WORKLOADS, options.only, "workload")
    contestants = WITH_TLS if options.tls else CONTESTANTS
    options.contestants = known.chosen(contestants, options.contestants, "contestant")
    return options


def circumstances(rounds: int, place: Path) -> list[str]:
    librdkafka = f"confluent-kafka {confluent_kafka.__version__}, librdkafka {confluent_kafka.libversion()[0]}"
    return [
        f"{machine.cores()} ({machine.model()}), {machine.memory_gb():.0f} GB of memory, load at the start "
        f"{machine.load():.1f}; client and broker share them",
        f"One append of 100 bytes and fdatasync on this disk: {machine.sync_time(place)}",
        f"Client: {librdkafka}; {counted(rounds)}, one broker busy at a time; written by `make bench`",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parsed(arguments)
    if not sys.platform.startswith("linux"):
        print("make bench needs Linux: it reads processor time and memory from /proc", file=sys.stderr)
        return 1
    with progress_bar() as bar:
        bar.show("preparing the contestants")
        PLACE.mkdir(exist_ok=True)
        versions, left_out = available(options.contestants)
        contestants = [each for each in options.contestants if each.key in versions]
        if not contestants:
            print("\n".join(f"{name}: {reason}" for name, reason in left_out.items()), file=sys.stderr)
            return 1
        facts = circumstances(options.rounds, PLACE)
        if not options.quick:
            bar.show("touching the memory")
            machine.touch_memory()
        scale, limit_s = (_QUICK_SCALE, _QUICK_LIMIT_S) if options.quick else (1, _LIMIT_S)
        plan = Plan(
            options.only, contestants, options.rounds, scale, limit_s, PLACE / "data", counts_syncs=not options.tls
        )
        results = run(plan, bar.show)
        bar.show("processor time without sockets")
        in_process = {} if options.tls else measured(versions)
    report = Report(options.only, contestants, versions, left_out, results, scale, facts, in_process)
    print(report.tls_text() if options.tls else report.text())
    found = {"facts": facts, "versions": versions, "left_out": left_out, "results": asdict(results)}
    save(options.json, found | {"in_process_us": in_process})
    if options.is_whole and KAFKA in versions:
        write = report.write_tls if options.tls else report.write
        print(f"written to {write()}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
