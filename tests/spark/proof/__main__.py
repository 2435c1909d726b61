"""The command: runs a part of the proof, adds what it finds to a file of results, and shows the page of all of them.

python -m tests.spark.proof session --seeds 700 [--first 0] [--broker kafka]
python -m tests.spark.proof kills --seeds 10        # of each sink of ours
python -m tests.spark.proof cluster --seeds 32
python -m tests.spark.proof table --write docs/spark/spark-proof.md
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from tests.spark.proof import cluster, kills, session
from tests.spark.proof.scene import SINKS, Oncelog
from tests.spark.proof.tally import Found, page, read
from tests.support.proofs import append, publish


def found(part: str, broker: str, first: int, count: int, sinks: tuple[str, ...]) -> Iterator[Found]:
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
        work = Path(directory)
        with session.broker_in(work, broker) as running:
            if part == "session":
                yield from session.run(work, running, first, count, sinks)
            elif part == "cluster":
                yield from cluster.run(work, running, first, count, sinks)
            elif not isinstance(running, Oncelog):
                sys.exit("kills needs a broker whose requests can be held: --broker oncelog")
            else:
                yield from kills.run(work, running, first, count, sinks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("session", "kills", "cluster", "table"))
    parser.add_argument("--seeds", type=int, default=70)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--broker", choices=tuple(session.BROKERS), default="oncelog")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)
    parser.add_argument("--results", type=Path, default=Path(".proof/results.jsonl"))
    parser.add_argument("--write", type=Path, help="a file for the page")
    arguments = parser.parse_args()
    bad = 0
    if arguments.part != "table":
        sinks = tuple(arguments.sinks)
        for each in found(arguments.part, arguments.broker, arguments.first, arguments.seeds, sinks):
            append(arguments.results, asdict(each))
            bad += each.is_bad
            if each.is_bad:
                sys.stderr.write(f"{each}\n")
    publish(page(read(arguments.results)), arguments.write)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
