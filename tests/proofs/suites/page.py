"""What a run of a suite found: one line of JSON for each suite, broker and storage, and the page that is written from
these and from the reasons of the suites."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.proofs.suites.suite import Excuse, Outcome, Reason, Suite
from tests.proofs.table import Kept, own_version, table, today

OURS = "oncelog"
WHERE = {"files": "files", "postgres": "PostgreSQL"}


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one run."""

    suite: str
    version: str
    broker: str
    storage: str
    outcomes: Mapping[str, Outcome]
    seconds: float
    date: str = field(default_factory=today)
    oncelog: str = field(default_factory=own_version)

    @property
    def is_bad(self) -> bool:
        """Failures are judged on the page, where Apache Kafka's outcomes are beside them."""
        return not self.outcomes


def _found(line: dict[str, Any]) -> Found:
    return Found(**line)


KEPT = Kept(_found, key=lambda found: (found.suite, found.broker, found.storage))


@dataclass(frozen=True, slots=True)
class Judged:
    """The outcomes of one run with the reason of each test that does not pass; None: it has none, and is a fault."""

    found: Found
    reasons: Mapping[str, Reason | None]
    passed: int

    @property
    def faults(self) -> Sequence[str]:
        return [test for test, reason in self.reasons.items() if reason is None]

    @property
    def tests(self) -> int:
        return self.passed + len(self.reasons)


def judge(found: Found, suite: Suite, of_kafka: Mapping[str, Outcome]) -> Judged:
    """Finds the reasons: those that the suite is given, then what Apache Kafka's run shows."""
    reasons: dict[str, Reason | None] = {}
    for test, outcome in found.outcomes.items():
        if outcome == "passed":
            continue
        excuse = suite.excuse_of(test)
        if excuse is not None:
            reasons[test] = excuse.reason
        elif outcome == "skipped":
            reasons[test] = Reason.SKIPS_ITSELF
        elif outcome == "late":
            reasons[test] = Reason.LATE
        else:
            reasons[test] = Reason.ON_KAFKA_TOO if of_kafka.get(test) == "failed" else None
    return Judged(found, reasons, sum(outcome == "passed" for outcome in found.outcomes.values()))


def page(results: Sequence[Found], suites: Sequence[Suite]) -> str:
    """The tables, and each test that does not pass with its reason."""
    by_key = {(each.suite, each.broker, each.storage): each for each in results}
    judged = []
    for suite in suites:
        kafka = by_key.get((suite.name, "kafka", "files"))
        of_kafka = kafka.outcomes if kafka else {}
        for storage in WHERE:
            if (found := by_key.get((suite.name, OURS, storage))) is not None:
                judged.append((suite, judge(found, suite, of_kafka)))
    lines = [*_sums(judged), "", *_not_passed(judged), *_not_begun(suites)]
    return "\n".join(lines)


def _sums(judged: Sequence[tuple[Suite, Judged]]) -> Iterator[str]:
    titles = ("suite", "version", "records in", "tests", "passed", "not passed, by reason", "no reason yet", "run on")
    yield from table(titles, (_row(each) for _, each in judged), numbers=(3, 4, 6))
    tests, passed = sum(each.tests for _, each in judged), sum(each.passed for _, each in judged)
    yield ""
    yield f"Together {passed:,} of {tests:,} passed; {sum(len(each.faults) for _, each in judged)} have no reason yet."


def _row(each: Judged) -> tuple[object, ...]:
    counts = Counter(reason.value for reason in each.reasons.values() if reason is not None)
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    found = each.found
    return (
        found.suite,
        found.version,
        WHERE[found.storage],
        each.tests,
        each.passed,
        why or "–",
        len(each.faults),
        found.date,
    )


def _not_passed(judged: Sequence[tuple[Suite, Judged]]) -> Iterator[str]:
    for suite, each in judged:
        if not each.reasons:
            continue
        yield f"### {suite.name}, records in {WHERE[each.found.storage]}"
        yield ""
        for test, reason in sorted(each.reasons.items()):
            excuse = suite.excuse_of(test)
            if excuse is not None:
                yield f"- `{test}`: {excuse.reason.value}. {excuse.why}"
            else:
                yield f"- `{test}`: {'**no reason yet**' if reason is None else reason.value}."
        yield ""


def _not_begun(suites: Sequence[Suite]) -> Iterator[str]:
    left: list[tuple[str, Excuse]] = [
        (suite.name, excuse) for suite in suites for excuse in suite.excuses if not excuse.is_run
    ]
    if left:
        yield "### Not begun"
        yield ""
        yield from table(
            ("suite", "tests", "reason", "why"),
            ((name, f"`{each.pattern}`", each.reason.value, each.why) for name, each in left),
        )
