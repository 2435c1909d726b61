"""The command: runs parts of the proof, adds what they find to a file of results, writes the page from it.

python -m tests.spark.proof session --seeds 500 [--first 0] [--broker kafka]
python -m tests.spark.proof table --write docs/spark-proof.md
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.spark.proof import session
from tests.spark.proof.tally import Found, append, page, read


def found(part: str, work: Path, arguments: argparse.Namespace) -> Iterator[Found]:
    return session.run(work, arguments.broker, arguments.first, arguments.seeds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("session", "table"))
    parser.add_argument("--seeds", type=int, default=70)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--broker", choices=tuple(session.BROKERS), default="oncelog")
    parser.add_argument("--results", type=Path, default=Path(".proof/results.jsonl"))
    parser.add_argument("--write", type=Path, help="for the table: the page")
    arguments = parser.parse_args()
    arguments.results.parent.mkdir(exist_ok=True)
    bad = 0
    if arguments.part != "table":
        with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as directory:
            for each in found(arguments.part, Path(directory), arguments):
                append(arguments.results, each)
                if each.is_bad:
                    bad += 1
                    sys.stderr.write(f"{each}\n")
    text = page(read(arguments.results))
    if arguments.write is None:
        sys.stdout.write(text)
    else:
        arguments.write.write_text(text)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
