"""The command of all proofs: runs what is asked for of a subject, keeps each result, and writes the block of its page.

A result replaces that of the last run of the same part, so that a long run can be made of short ones. The exit code is
1 if a result is bad.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Generic, TypeVar

from tests.proofs.table import Found, Kept
from tools.markers import with_block

SUBJECTS = ("postgres", "outbox", "spark")
One = TypeVar("One", bound=Found)


@dataclass(frozen=True, slots=True)
class Subject(Generic[One]):
    """One proof, as the command runs it."""

    description: str
    results: Path
    kept: Kept[One]
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], Iterator[One]]
    page: Callable[[Path], str]
    """Makes the text of the page's block from the file of results."""


def say(what: str, text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {what}: {text}\n")


def main() -> int:
    if sys.argv[1:2] == [] or sys.argv[1] not in SUBJECTS:
        sys.exit(f"usage: python -m tests.proofs {{{','.join(SUBJECTS)}}} ...")
    subject: Subject[Found] = import_module(f"tests.proofs.{sys.argv[1]}.subject").SUBJECT
    parser = argparse.ArgumentParser(f"python -m tests.proofs {sys.argv[1]}", description=subject.description)
    parser.add_argument("--results", type=Path, default=subject.results)
    parser.add_argument("--write", type=Path, help="a page with a block for the tables")
    parser.add_argument("--json", action="store_true", help="print the results of this run instead of the page")
    subject.add_options(parser)
    arguments = parser.parse_args(sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    found = []
    for each in subject.run(arguments):
        subject.kept.keep(arguments.results, each)
        found.append(each)
        if each.is_bad:
            sys.stderr.write(f"FAILED: {each}\n")
    if arguments.json:
        sys.stdout.write(json.dumps([asdict(each) for each in found], indent=2) + "\n")
    elif arguments.write is not None:
        page = arguments.write.read_text(encoding="utf-8")
        written = with_block(page, f"make proof WHAT={sys.argv[1]}", subject.page(arguments.results))
        arguments.write.write_text(written, encoding="utf-8")
    else:
        sys.stdout.write(subject.page(arguments.results))
    return 1 if any(each.is_bad for each in found) else 0
