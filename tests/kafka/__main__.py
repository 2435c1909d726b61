"""Run Apache Kafka's own tests against oncelog, class by class, and write what became of them.

python -m tests.kafka run [PATTERN ...]   the classes with these names (with * and ?), or all; replaces their results
python -m tests.kafka one CLASS#METHOD    one test, with all that it says
python -m tests.kafka list [PATTERN ...]  the classes
python -m tests.kafka table               the page once more, from the results and the table of reasons
"""

import fnmatch
import sys
import time

from tests.kafka.classes import origins, test_classes
from tests.kafka.launch import run_class
from tests.kafka.page import PAGE, page
from tests.kafka.results import (
    NONE,
    ClassResult,
    read_reasons,
    read_results,
    result_of,
    with_reasons,
    write_results,
)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["run", *patterns]:
            return run(patterns)
        case ["one", test]:
            for outcome in run_class(test):
                print(outcome.status, f"{outcome.seconds:.1f} s", outcome.method, outcome.invocation, *outcome.notes)
                print(*(f"    {line}\n" for line in outcome.why), sep="", end="")
            return 0
        case ["list", *patterns]:
            print(*matching(patterns), sep="\n")
            return 0
        case ["table"]:
            write_page(with_reasons(read_results(), read_reasons()))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


def matching(patterns: list[str]) -> list[str]:
    return [name for name in test_classes() if not patterns or any(fnmatch.fnmatch(name, each) for each in patterns)]


def run(patterns: list[str]) -> int:
    reasons, places = read_reasons(), origins()
    names = matching(patterns)
    faults = 0
    for number, name in enumerate(names, 1):
        started = time.monotonic()
        result = _run_one(name, places[name])
        if result is None:
            continue
        # Read again: another run may have written results of its own.
        write_page(with_reasons({**read_results(), name: result}, reasons))
        without = sum(each.reason == NONE for each in result.missed)
        faults += without
        print(
            f"{number}/{len(names)} {name}: {result.passed} of {result.tests} passed, {without} without a reason "
            f"({time.monotonic() - started:.0f} s)",
            flush=True,
        )
    return int(faults > 0)


def _run_one(name: str, origin: str) -> ClassResult | None:
    try:
        found = run_class(name)
    except RuntimeError as error:
        # An abstract class, or one whose tests are all disabled.
        print(f"{name}: {str(error).strip()[-200:]}", flush=True)
        return None
    return result_of(name, origin, time.strftime("%Y-%m-%d"), found, read_reasons())


def write_page(results: dict[str, ClassResult]) -> None:
    write_results(results)
    PAGE.write_text(page(results, read_reasons()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
