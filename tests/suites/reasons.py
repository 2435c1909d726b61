"""Reasons why a test does not pass that are no faults of the broker: `reasons.toml` has them.

A test has the reason that the table gives it by name. Otherwise its outcome can be the reason: it skips itself, it is
not ended, or what it says when it fails has a reason in the table. A test that fails on Apache Kafka, too, run in the
same way, is no fault. Any other failure has no reason, and is a fault until it has one.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tests.suites.suite import Outcome

TABLE = Path(__file__).parent / "reasons.toml"
SKIPS_ITSELF = "skips itself"
LATE = "not ended in the time of the run"
ON_KAFKA_TOO = "fails on Apache Kafka 4.3, too"
NONE = "no reason yet"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason in the words of the page; `why` says more of this test."""

    words: str
    why: str = ""


NO_REASON = Reason(NONE)


@dataclass(frozen=True, slots=True)
class Given:
    """The reason of tests, by patterns of the names of suites and tests. A suite may be "name (storage)", for what
    fails over these records alone."""

    suites: str
    tests: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Reasons:
    """The table."""

    sentences: Mapping[str, str]
    """The meaning of the words of a reason."""
    said: Mapping[str, str]
    """The words of a reason, by what a test says that has it."""
    given: Sequence[Given]

    def of(self, suite: str, test: str, outcome: Outcome, on_kafka: Outcome | None = None, storage: str = "") -> Reason:
        """Return the reason of a test that has not passed."""
        for each in self.given:
            is_of_suite = fnmatchcase(suite, each.suites) or fnmatchcase(f"{suite} ({storage})", each.suites)
            if is_of_suite and fnmatchcase(test, each.tests):
                return each.reason
        if outcome.status == "skipped":
            return Reason(SKIPS_ITSELF)
        if outcome.status == "late":
            return Reason(LATE)
        for text, words in self.said.items():
            if text in outcome.why:
                return Reason(words)
        return Reason(ON_KAFKA_TOO) if on_kafka is not None and on_kafka.status == "failed" else NO_REASON


def read_reasons(table: Path = TABLE) -> Reasons:
    found = tomllib.loads(table.read_text(encoding="utf-8"))
    given = [
        Given(suites, tests, Reason(words, why))
        for suites, by_words in found["tests"].items()
        for words, several in by_words.items()
        for tests, why in several.items()
    ]
    return Reasons(found["reasons"], found["said"], given)
