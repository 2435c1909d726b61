"""`make suites`, as the command runs it.

python -m tests.proofs suites [--only franz-go] [--broker kafka] [--storage postgres] [--tests TestPing] [--logs DIR]

Some suites look for a broker at ports that are fixed in them: `make suites` runs all in a network of their own.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.proofs.runner import Subject
from tests.proofs.suites.broker import BROKERS, STORAGES
from tests.proofs.suites.page import KEPT, Found, page
from tests.proofs.suites.run import found_by
from tests.proofs.suites.suites import SUITES


def _add_options(parser: argparse.ArgumentParser) -> None:
    names = [suite.name for suite in SUITES]
    parser.add_argument("--only", nargs="*", choices=names, default=names, help="none: the page alone")
    parser.add_argument("--broker", choices=BROKERS, default=BROKERS[0])
    parser.add_argument("--storage", choices=STORAGES, default=STORAGES[0])
    parser.add_argument("--tests", nargs="+", default=(), help="only these: others keep their outcomes")
    parser.add_argument("--logs", type=Path, help="a directory in which to keep what the suites print")


def _run(arguments: argparse.Namespace) -> Iterator[Found]:
    for suite in SUITES:
        if suite.name not in arguments.only:
            continue
        if arguments.logs is not None:
            arguments.logs.mkdir(parents=True, exist_ok=True)
        found = found_by(suite, arguments.broker, arguments.storage, arguments.tests, arguments.logs)
        if arguments.tests:
            found = _with_others(found, KEPT.read(arguments.results))
        yield found


def _with_others(found: Found, kept: Sequence[Found]) -> Found:
    """With the outcomes of an earlier run for the tests that were not run now."""
    before = [each.outcomes for each in kept if KEPT.key(each) == KEPT.key(found)]
    return replace(found, outcomes={**(before[0] if before else {}), **found.outcomes})


SUBJECT = Subject(
    "The tests of other projects, run against this broker.",
    Path("docs/compare/other-suites.jsonl"),
    KEPT,
    _add_options,
    _run,
    lambda results: page(KEPT.read(results), SUITES),
)
