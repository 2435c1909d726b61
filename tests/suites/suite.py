"""A suite of another project: its tests, how some of them run, and how what its runner prints is read.

Truth about a suite has three owners: its declaration here (how it runs), `results/` (what became of each test), and
`reasons.toml` (why a test does not pass). Pages are written from the last two and own nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Literal

Processes = Literal["continued", "each test", "all tests"]
"""What has a process: all tests, and those that are left behind one that ended it; each test; or all tests, once."""
Status = Literal["passed", "failed", "skipped", "late"]
"""`late`: it was begun, and its time was over before it ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one test; as text "passed", or "failed: what it said"."""

    status: Status
    why: str = ""

    def __str__(self) -> str:
        return f"{self.status}: {self.why}" if self.why else self.status

    @staticmethod
    def of(text: str) -> "Outcome":
        status, _, why = text.partition(": ")
        return Outcome(status, why)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Where:
    """The kind of broker that a suite runs against, and where it keeps its records."""

    broker: str = "oncelog"
    storage: str = "files"


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, as the processes of a suite know it. A suite that starts brokers itself starts them of this kind, with
    their records in this storage."""

    kind: str
    directory: Path
    """Belongs to the run: it is empty in the beginning, and removed in the end."""
    storage: str = ""
    """An argument of `oncelog serve --storage`; empty: files."""
    bootstrap: str = ""
    """Empty where the suite starts brokers itself."""
    takes_over: bool = False
    """A suite that starts brokers itself has another one take over where it would start one again."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Tests that are run, counted and recorded together."""

    name: str
    version: Callable[[], str]
    tests: Callable[[], Sequence[str]]
    """Names what can be run that speaks to a broker: tests, or files and classes of them."""
    command: Callable[[Sequence[str], Broker], Sequence[str]]
    """Runs what has these names."""
    read: Callable[[str], Mapping[str, Outcome]]
    """Finds outcomes in the output."""
    _: KW_ONLY
    notes: Callable[[str], Mapping[str, int]] = lambda output: {}
    """Finds in the output what the tests were given in the place of what they asked for, and how often."""
    environment: Callable[[Broker], Mapping[str, str]] = lambda broker: {}
    directory: Callable[[], Path] | None = None
    """Where its processes run; None: in the directory of the run."""
    starts_brokers: bool = False
    settings: Sequence[str] = ()
    """Settings of the broker by Kafka's names: oncelog and Apache Kafka get them alike."""
    port: int | None = None
    """Where the suite looks for a broker, if that is fixed in it."""
    beside: Callable[[], tuple[Sequence[str], int]] | None = None
    """The command of a program that has to run beside it, and the port at which it listens when it is ready."""
    changes_per_take_over: int = 1_000
    """How many requests that change something lie between two take-overs, where it runs through them."""
    processes: Processes = "continued"
    timeout_s: int = 240
    """The limit of one process."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Suites that share a page."""

    suites: Callable[[], Sequence[Suite]]
    builds: Mapping[str, Callable[[], str]]
    """Fetch and build what the suites need; each returns its version."""
    results: Path
    """A file: a line of JSON for each suite, broker and storage."""
    page: Path
    command: str
    """Writes the block of the page, as the block says."""
    begins_as: Path | None = None
    """The page without results, where the documentation has none yet."""
