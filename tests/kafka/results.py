"""The results of a run, and the reason of each test that did not pass."""

import json
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.kafka.launch import Outcome

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
REASONS = HERE / "reasons.toml"
NONE = "none"
"""No reason is known: a fault of ours, or one that is not looked into yet."""
OUT_OF_REACH = "oncelog.kafkatests.OutOfReach"
LIMIT = "the time limit of the class"
SLOW = (
    LIMIT,
    "is not ready after",
    "Shutdown in progress",
    "timed out after",
    "/oncelog/out.",
)
"""What is said where a limit of time ended a test, or the class while the test ran."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A test that did not pass."""

    method: str
    invocation: str
    reason: str
    why: str


@dataclass(frozen=True, slots=True)
class ClassResult:
    test_class: str
    origin: str
    date: str
    passed: int
    missed: tuple[Missed, ...]

    @property
    def tests(self) -> int:
        return self.passed + len(self.missed)


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why tests cannot pass: a sentence for each reason, and the reasons of classes and of their methods."""

    sentences: Mapping[str, str]
    of_tests: Mapping[str, str]

    def of(self, outcome: Outcome) -> str:
        test = f"{outcome.test_class}.{outcome.method}"
        for name in (f"{test}[{outcome.invocation}]", test, outcome.test_class):
            if name in self.of_tests:
                return self.of_tests[name]
        if any(OUT_OF_REACH in line for line in outcome.why):
            return "jvm"
        is_slow = outcome.status == "unfinished" or any(each in line for line in outcome.why for each in SLOW)
        return "slow" if is_slow else NONE


def read_reasons(path: Path = REASONS) -> Reasons:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Reasons(table["reasons"], {test: reason for reason, tests in table["tests"].items() for test in tests})


def result_of(name: str, origin: str, date: str, outcomes: Iterable[Outcome], reasons: Reasons) -> ClassResult:
    outcomes = list(outcomes)
    missed = tuple(
        Missed(each.method, each.invocation, reasons.of(each), _first_line(each))
        for each in outcomes
        if each.status != "passed"
    )
    return ClassResult(name, origin, date, sum(each.status == "passed" for each in outcomes), missed)


def _first_line(outcome: Outcome) -> str:
    if outcome.status == "unfinished":
        return LIMIT
    causes = [line for line in outcome.why if not line.startswith((" ", "suppressed"))]
    reach = [line for line in causes if OUT_OF_REACH in line]
    return " ".join((reach or causes or ["?"])[0].split())[:200]


def read_results(path: Path = RESULTS) -> dict[str, ClassResult]:
    if not path.exists():
        return {}
    return {
        each["test_class"]: ClassResult(**{**each, "missed": tuple(Missed(**one) for one in each["missed"])})
        for each in json.loads(path.read_text(encoding="utf-8"))
    }


def write_results(results: Mapping[str, ClassResult], path: Path = RESULTS) -> None:
    lines = [json.dumps(asdict(results[name])) for name in sorted(results)]
    path.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def with_reasons(results: Mapping[str, ClassResult], reasons: Reasons) -> dict[str, ClassResult]:
    """The same results, by a table that has changed since the run."""
    again = {}
    for name, result in results.items():
        missed = tuple(
            Missed(each.method, each.invocation, reasons.of(_as_outcome(name, each)), each.why)
            for each in result.missed
        )
        again[name] = ClassResult(name, result.origin, result.date, result.passed, missed)
    return again


def _as_outcome(name: str, missed: Missed) -> Outcome:
    return Outcome(name, missed.method, missed.invocation, "failed", 0, (missed.why,), ())


def by_reason(results: Iterable[ClassResult]) -> Counter[str]:
    return Counter(each.reason for result in results for each in result.missed)
