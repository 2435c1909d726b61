"""Reads outcomes from what the runners of tests print."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from tests.suites.suite import Outcome, Status

PASSED, FAILED, SKIPPED, LATE = Outcome("passed"), Outcome("failed"), Outcome("skipped"), Outcome("late")

_GO_LINE = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
_GO_OUTCOMES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
_GO_BEGUN = re.compile(r"^=== RUN +([^\s/]+)$", re.MULTILINE)


def read_go(output: str) -> dict[str, Outcome]:
    """Reads `go test -v`. Tests that were begun in a process that ended before them have failed."""
    found = {name: _GO_OUTCOMES[word] for word, name in _GO_LINE.findall(output)}
    return {**dict.fromkeys(_GO_BEGUN.findall(output), FAILED), **found}


_LIBRDKAFKA_LINE = re.compile(r"\|\s*(\d{4}_\w+)\s*\|\s*(PASSED|FAILED|SKIPPED)")


def read_librdkafka(output: str) -> dict[str, Outcome]:
    """Reads the table at the end of its test runner, without the tests that need no broker."""
    plain = re.sub(r"\033\[[0-9;]*m", "", output)
    found = _LIBRDKAFKA_LINE.findall(plain)
    return {name: Outcome(word.lower()) for name, word in found if not name.endswith(("_local", "_mock"))}


_PYTEST_LINE = re.compile(r"^(\S+::.+?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)", re.MULTILINE)
_PYTEST_OUTCOMES = {"PASSED": PASSED, "XPASS": PASSED, "SKIPPED": SKIPPED}


def read_pytest(output: str) -> dict[str, Outcome]:
    """Reads `pytest -v`. Of a test and its end the worse counts."""
    found: dict[str, Outcome] = {}
    for name, word in _PYTEST_LINE.findall(output):
        if found.get(name) != FAILED:
            found[name] = _PYTEST_OUTCOMES.get(word, FAILED)
    return found


WHOLE = "(the class)"
"""What fails before the first test of a class, or behind the last."""
_JUNIT_LINE = re.compile(r"oncelog-test (\{.*\})$", re.MULTILINE)
_JUNIT_STATUSES: Mapping[str, Status] = {
    "started": "late",
    "passed": "passed",
    "failed": "failed",
    "skipped": "skipped",
}
_CAUSE = 200


def read_junit(output: str) -> dict[str, Outcome]:
    """Reads what `java/oncelog/kafkatests/Run.java` prints, a line when a test begins and a line when it ends: a test
    with parameters is `method/2` for the second of their values."""
    found: dict[str, Outcome] = {}
    for line in _JUNIT_LINE.findall(output):
        with suppress(ValueError):  # the last line of a process that was ended
            each = json.loads(line)
            found[_junit_name(each)] = Outcome(_JUNIT_STATUSES[each["status"]], _causes(each))
    return found


def read_notes(output: str) -> dict[str, int]:
    """Sums up what `Notes.java` has counted, without the particulars behind a colon."""
    found: Counter[str] = Counter()
    for line in _JUNIT_LINE.findall(output):
        with suppress(ValueError):
            for what, count in json.loads(line).get("notes", {}).items():
                found[what.partition(": ")[0]] += count
    return dict(sorted(found.items()))


def _junit_name(line: Mapping[str, Any]) -> str:
    _, invoked, number = line["id"].rpartition("invocation:#")
    method: str = line.get("method", WHOLE)
    return f"{method}/{number.rstrip(']')}" if invoked else method


def _causes(line: Mapping[str, Any]) -> str:
    """Leaves out the places in the code, which begin with blanks."""
    causes = [" ".join(each.split())[:_CAUSE] for each in line.get("why", ()) if not each.startswith(" ")]
    return " < ".join(causes)
