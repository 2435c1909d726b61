"""Runs tests of others against oncelog, and writes what became of them.

python -m tests.suites list  clients|kafka [SUITE ...]   the suites with these names (with * and ?), or all
python -m tests.suites run   clients|kafka [SUITE ...]   runs them; the results and the page have them in the end
python -m tests.suites try   clients|kafka [SUITE ...]   runs them, and leaves results and page as they are
python -m tests.suites table clients|kafka               writes the page from the results and the table of reasons
python -m tests.suites fetch clients|kafka               fetches and builds what they need
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from tests.suites.brokers import BROKERS, STORAGES
from tests.suites.clients import CLIENTS
from tests.suites.kafka import KAFKA
from tests.suites.outputs import WHOLE
from tests.suites.page import judge_all, write_page
from tests.suites.reasons import NONE, read_reasons
from tests.suites.results import KEPT, Result
from tests.suites.run import result_of
from tests.suites.suite import Collection, Suite, Where
from tools.interop import prepare_each

COLLECTIONS = {"clients": CLIENTS, "kafka": KAFKA}


def main() -> int:
    arguments = _parser().parse_args()
    collection = COLLECTIONS[arguments.of]
    if arguments.do == "fetch":
        return prepare_each(collection.builds.items())
    if arguments.do == "table":
        write_page(collection, KEPT.read(collection.results), read_reasons())
        return 0
    names = arguments.suites or ["*"]
    suites = [each for each in collection.suites() if any(fnmatchcase(each.name, name) for name in names)]
    if not suites:
        sys.exit(f"no suite here has the name {', '.join(names)}: `fetch` first?")
    if arguments.do == "list":
        sys.stdout.write("".join(f"{each.name}\n" for each in suites))
        return 0
    if arguments.tests and len(suites) > 1:
        sys.exit("--tests are of one suite")
    if arguments.broker == "kafka" and arguments.storage != "files":
        sys.exit("Apache Kafka keeps its records in files")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended
    return _run(collection, suites, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.suites", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("do", choices=("list", "run", "try", "table", "fetch"))
    parser.add_argument("of", choices=COLLECTIONS)
    parser.add_argument("suites", nargs="*", metavar="SUITE")
    parser.add_argument("--broker", choices=BROKERS, default=BROKERS[0])
    parser.add_argument("--storage", choices=STORAGES, default=STORAGES[0])
    parser.add_argument("--tests", nargs="+", default=(), help="only these: others keep their outcomes")
    parser.add_argument("--only", choices=("not-passed", "no-reason-yet"), help="of tests that ran on oncelog before")
    parser.add_argument("--logs", type=Path, help="a directory in which to keep what the suites print")
    return parser


def _run(collection: Collection, suites: Sequence[Suite], arguments: argparse.Namespace) -> int:
    where = Where(arguments.broker, arguments.storage)
    faults = 0
    if arguments.logs is not None:
        arguments.logs.mkdir(parents=True, exist_ok=True)
    for number, suite in enumerate(suites, 1):
        tests = arguments.tests if arguments.only is None else _of_before(collection, suite, arguments)
        if arguments.only is not None and not tests:
            continue
        if WHOLE in tests:
            tests = ()
        result = result_of(suite, where, tests, arguments.logs)
        # Read again each time: another run may have added results of its own.
        kept = [each for each in KEPT.read(collection.results) if each.suite == suite.name]
        if result.outcomes and arguments.do == "run":
            result = _with_the_rest(result, kept) if tests else result
            KEPT.keep(collection.results, result)
            write_page(collection, KEPT.read(collection.results), read_reasons())
        faults += _report(f"{number}/{len(suites)}", result, kept)
    return int(faults > 0)


def _of_before(collection: Collection, suite: Suite, arguments: argparse.Namespace) -> Sequence[str]:
    """Returns the tests that did not pass on oncelog, or those of them without a reason."""
    results = [each for each in KEPT.read(collection.results) if each.suite == suite.name]
    for each in judge_all(results, read_reasons()):
        if each.result.where.storage == arguments.storage:
            return each.faults if arguments.only == "no-reason-yet" else [*each.reasons]
    return ()


def _with_the_rest(some: Result, kept: Sequence[Result]) -> Result:
    """Adds the results of the tests of the same suite that did not run."""
    for each in kept:
        if each.where == some.where:
            return replace(some, outcomes={**each.outcomes, **some.outcomes}, notes=each.notes)
    return some


def _report(place: str, result: Result, kept: Sequence[Result]) -> int:
    """Prints what became of the tests; returns how many did not pass without a reason."""
    others = [each for each in kept if each.where != result.where]
    judged = [each for each in judge_all([*others, result], read_reasons()) if each.result is result]
    faults = [test for each in judged for test in each.faults]
    passed = sum(each.status == "passed" for each in result.outcomes.values())
    line = f"{place} {result.suite}: {passed} of {len(result.outcomes)} passed ({result.seconds:.0f} s)"
    print(line + (f", {NONE}: {', '.join(faults)}" if faults else ""), flush=True)
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
