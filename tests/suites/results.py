"""Results: what a run of a suite found, a line of JSON for each suite, broker and storage."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.proofs.table import Kept, own_version, today
from tests.suites.suite import Outcome, Where


@dataclass(frozen=True, slots=True)
class Result:
    """The outcomes of one run, by the names of the tests."""

    suite: str
    version: str
    where: Where
    outcomes: Mapping[str, Outcome]
    seconds: float
    date: str = field(default_factory=today)
    oncelog: str = field(default_factory=own_version)
    notes: Mapping[str, int] = field(default_factory=dict)
    """What the tests were given in the place of what they asked for, and how often."""


def _read(line: Mapping[str, Any]) -> Result:
    where = Where(line["broker"], line["storage"])
    outcomes = {test: Outcome.of(text) for test, text in line["outcomes"].items()}
    run = line["seconds"], line["date"], line["oncelog"]
    return Result(line["suite"], line["version"], where, outcomes, *run, line.get("notes", {}))


def _write(result: Result) -> Mapping[str, Any]:
    line = asdict(result)
    where = line.pop("where")
    return {**line, **where, "outcomes": {test: str(outcome) for test, outcome in result.outcomes.items()}}


def _order(result: Result) -> tuple[str, str, str]:
    return result.suite.casefold(), result.where.broker, result.where.storage


KEPT = Kept(_read, lambda result: (result.suite, result.where), _order, _write)
