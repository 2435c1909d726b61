"""`make proof WHAT=spark`, as the command runs it.

python -m tests.proofs spark session --seeds 700 [--first 0] [--broker kafka]
python -m tests.proofs spark kills --seeds 10        # of each sink of ours
python -m tests.proofs spark cluster --seeds 32
python -m tests.proofs spark table --write docs/spark/spark-proof.md
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.proofs.runner import Subject
from tests.proofs.spark import cluster, kills, session
from tests.proofs.spark.page import KEPT, Found, page
from tests.proofs.spark.scene import SINKS, Oncelog


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("part", choices=("session", "kills", "cluster", "table"))
    parser.add_argument("--seeds", type=int, default=70)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--broker", choices=tuple(session.BROKERS), default="oncelog")
    parser.add_argument("--sinks", nargs="+", choices=SINKS, default=SINKS)


def _run(arguments: argparse.Namespace) -> Iterator[Found]:
    if arguments.part == "table":
        return
    asked = arguments.first, arguments.seeds, tuple(arguments.sinks)
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
        work = Path(directory)
        with session.broker_in(work, arguments.broker) as running:
            if arguments.part == "session":
                yield from session.run(work, running, *asked)
            elif arguments.part == "cluster":
                yield from cluster.run(work, running, *asked)
            elif not isinstance(running, Oncelog):
                sys.exit("kills needs a broker whose requests can be held: --broker oncelog")
            else:
                yield from kills.run(work, running, *asked)


SUBJECT = Subject(
    "Faults on four sinks of Spark.",
    Path(".proof/results.jsonl"),
    KEPT,
    _add_options,
    _run,
    lambda results: page(KEPT.read(results)),
)
