"""What a suite of another project is to the runner: the tests that it has, how some of them are run, how its output is
read, and which of its tests cannot pass here, with the reason of each."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

Outcome = Literal["passed", "failed", "skipped", "late"]


class Reason(Enum):
    """Why a test does not pass that is no fault of the broker."""

    SEVERAL_BROKERS = "needs several brokers"
    OWN_MACHINERY = "needs the project's own machinery"
    OLDER_BROKER = "wants a broker before Kafka 4"
    ON_KAFKA_TOO = "fails on Apache Kafka 4.3, too"
    DECIDED = "a decided difference"
    SKIPS_ITSELF = "skips itself"
    LATE = "not ended in the time of the run"


@dataclass(frozen=True, slots=True)
class Excuse:
    """Tests that cannot pass, by a pattern of their names."""

    pattern: str
    reason: Reason
    why: str
    is_run: bool = True
    """False: it is not even begun, because it would wait for minutes, or end the others."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite. `{bootstrap}`, `{host}` and `{port}` in its environment stand for the broker's address."""

    name: str
    version: Callable[[], str]
    tests: Callable[[], Sequence[str]]
    """The names of those that speak to a broker."""
    command: Callable[[Sequence[str]], Sequence[str]]
    """Runs the tests with these names."""
    read: Callable[[str], Mapping[str, Outcome]]
    """Finds outcomes in the output."""
    environment: Mapping[str, str]
    directory: Callable[[], Path]
    settings: Sequence[str] = ()
    """The broker's, by Kafka's names: both brokers get them."""
    port: int | None = None
    """Where the suite looks for a broker, if that is fixed in it."""
    beside: Callable[[], tuple[Sequence[str], int]] | None = None
    """The command of a program that has to run beside it, and the port at which it listens when it is ready."""
    batch: int = 0
    """So many tests in one process; 0: all, and again from the test behind one that ended the process."""
    timeout_s: int = 240
    """Of one process."""
    excuses: Sequence[Excuse] = field(default=())

    def excuse_of(self, test: str) -> Excuse | None:
        return next((each for each in self.excuses if fnmatchcase(test, each.pattern)), None)


_GO_LINE = re.compile(r"^--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
_GO_OUTCOMES: Mapping[str, Outcome] = {"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}
_GO_BEGUN = re.compile(r"^=== RUN +([^\s/]+)$", re.MULTILINE)


def read_go(output: str) -> dict[str, Outcome]:
    """Reads `go test -v`. Tests that were begun in a process that ended before them have failed."""
    found = {name: _GO_OUTCOMES[word] for word, name in _GO_LINE.findall(output)}
    return {**dict.fromkeys(_GO_BEGUN.findall(output), "failed"), **found}


_LIBRDKAFKA_LINE = re.compile(r"\|\s*(\d{4}_\w+)\s*\|\s*(PASSED|FAILED|SKIPPED)")


def read_librdkafka(output: str) -> dict[str, Outcome]:
    """Reads the table at the end of its test runner, without the tests that need no broker."""
    plain = re.sub(r"\033\[[0-9;]*m", "", output)
    found = _LIBRDKAFKA_LINE.findall(plain)
    return {name: word.lower() for name, word in found if not name.endswith(("_local", "_mock"))}


_PYTEST_LINE = re.compile(r"^(\S+::.+?) (PASSED|FAILED|SKIPPED|ERROR|XFAIL|XPASS)", re.MULTILINE)
_PYTEST_OUTCOMES: Mapping[str, Outcome] = {"PASSED": "passed", "XPASS": "passed", "SKIPPED": "skipped"}


def read_pytest(output: str) -> dict[str, Outcome]:
    """Reads `pytest -v`. Of a test and its end the worse counts."""
    found: dict[str, Outcome] = {}
    for name, word in _PYTEST_LINE.findall(output):
        if found.get(name) != "failed":
            found[name] = _PYTEST_OUTCOMES.get(word, "failed")
    return found


_CARGO_LINE = re.compile(r"^test (\S+) \.\.\. .*?(ok|FAILED|ignored)$", re.MULTILINE)
_CARGO_OUTCOMES: Mapping[str, Outcome] = {"ok": "passed", "FAILED": "failed", "ignored": "skipped"}


def read_cargo(output: str) -> dict[str, Outcome]:
    """Reads `cargo test` on one thread."""
    return {name: _CARGO_OUTCOMES[word] for name, word in _CARGO_LINE.findall(output)}


_GO_FUNCTION = re.compile(r"^func (?:\([^)]*\) )?(\w+)\(.*?^}$", re.MULTILINE | re.DOTALL)


def go_tests(directory: Path, words: str) -> list[str]:
    """The tests of a package that reach, in its test files, a function with one of these words (a pattern)."""
    bodies: dict[str, str] = {}
    for file in sorted(directory.glob("*_test.go")):
        for match in _GO_FUNCTION.finditer(file.read_text()):
            bodies[match[1]] = bodies.get(match[1], "") + match[0]
    reached = {name for name, body in bodies.items() if re.search(words, body)}
    called = {name: {*re.findall(r"\b\w+(?=\()", body)} - {name} for name, body in bodies.items()}
    while more := {name for name in bodies if name not in reached and called[name] & reached}:
        reached |= more
    return [name for name in bodies if name in reached and re.match(r"Test(?![a-z])", name) and name != "TestMain"]
