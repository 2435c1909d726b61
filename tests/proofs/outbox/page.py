"""What was found: one line of JSON for each part, and the page that is written from these lines."""

import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.proofs.outbox.relays import AT_LEAST_ONCE, CARRIERS, NAIVE, ROUNDS
from tests.proofs.outbox.world import Counted
from tests.proofs.table import Kept, listed, own_version, table, today


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one part."""

    broker: str
    part: str
    kind: str
    """A carrier, or another design of a relay."""
    faults: int
    counted: Counted
    seed: int
    seconds: float
    postgres: str
    lost: int = 0
    """Events that one side has lost, where the relay must notice that."""
    said: str | None = None
    """The relay's sentence about the loss; None where there is nothing to notice."""
    date: str = field(default_factory=today)

    @property
    def major(self) -> str:
        """The version of PostgreSQL, where several were tried."""
        return self.postgres.partition(".")[0] if self.kind in ROUNDS else ""

    @property
    def is_bad(self) -> bool:
        """A relay of ours failed."""
        if self.kind not in (*CARRIERS, *ROUNDS):
            return False
        counted = self.counted
        wrong = counted.missing or counted.doubled or counted.disordered or counted.rolled_back
        if self.said is not None:
            return bool(wrong or not self.said)
        return bool(wrong or counted.only_in_kafka or counted.lost_by_database)


KEPT = Kept(
    lambda line: Found(**{**line, "counted": Counted(**line["counted"])}),
    key=lambda found: (found.broker, found.part, found.kind, found.major),
)


# --- the page ---------------------------------------------------------------------------------------------------------

_PARTS = {
    "kills": "the relay is killed (-9) at random moments",
    "steps": "the relay kills itself at each of its steps",
    "broker": "the broker is killed (-9) and started again",
    "crashes": "PostgreSQL is stopped `immediate` and started again",
    "promoted": "the primary crashes, a synchronous standby is promoted",
    "takeovers": "a second relay of the same name is started",
    "lost": "the primary crashes, an asynchronous standby that lacks commits is promoted",
    "dropped": "the slot is dropped, with commits behind it",
}
ROUND_PARTS = {
    "round_kills": "the broker is killed (-9) and started again",
    "round_takeovers": "of two nodes the one that leads is killed (-9), the other takes over",
    "round_crashes": "PostgreSQL is stopped `immediate` and started again",
}
_BROKERS = {"oncelog": "oncelog (`oncelog.flush.policy=fsync`)", "kafka": "Apache Kafka 4.3"}
_COLUMNS = ("faults", "commits", "rollbacks", "events", "missing", "doubled", "out of order", "rolled back, yet read")
_TOLD_COLUMNS = ("", "carrier", "events that one side lost", "missing, doubled after `--go-on`", "what it said")
_WRONG = ("missing", "doubled", "disordered", "rolled_back")
_BEGINNING = """## The outbox under kills

Written by `make proof WHAT=outbox` from the run's results. Four writers commit some 300 SQL transactions a second, of 1
to 4 events, some of 200, over three topics; one in ten is rolled back, one in ten to a savepoint, some wait before
their commit. One event in fifty has a header of 20 kB. Some must be put aside with the reason, once, and count as
events: of a topic that is not there, or rows whose headers are none. The database is SQL_ASCII, and some headers are
not UTF-8: `oncelog.produce` must refuse them, and they count as rolled back. Each writer keeps in a table of the same
SQL transaction what it published. Afterwards the topics are read at read_committed, with what was put aside, and
compared with that table, event by event; for each row of the database the events must be in the order of its commits.
"""


def page(found: Sequence[Found], measured: Iterable[str]) -> str:
    """Return the section of docs/operate/outbox.md."""
    ours = [each for each in found if each.kind in (*CARRIERS, *ROUNDS)]
    missing, doubled, late, undone = (sum(getattr(each.counted, name) for each in ours) for name in _WRONG)
    lines = [
        _BEGINNING,
        f"**{sum(each.faults for each in ours):,} faults, {sum(each.counted.events for each in ours):,} committed "
        f"events: {missing} missing, {doubled} doubled, {late} out of order, {undone} rolled back and yet read.**",
        "",
        f"Seed {listed(str(each.seed) for each in found)}; {listed(each.date for each in found)}; PostgreSQL "
        f"{listed(each.postgres for each in found)} with its own settings for fsync; oncelog "
        f"{own_version()}, Python {platform.python_version()}, {platform.machine()}.",
    ]
    for broker, title in _BROKERS.items():
        chosen = [each for each in found if each.broker == broker and each.kind not in ROUNDS]
        if chosen:
            lines += ["", f"### {title}", "", *_section(chosen)]
    in_rounds = [each for each in found if each.kind in ROUNDS]
    if in_rounds:
        lines += ["", "### oncelog in the same PostgreSQL, without a relay", "", _IN_ROUNDS, "", *_table(in_rounds)]
    return "\n".join([*lines, *measured, "", _REPEAT])


def _section(found: list[Found]) -> list[str]:
    lines = [*_table(each for each in found if each.kind in CARRIERS and each.said is None)]
    others = [each for each in found if each.kind not in CARRIERS]
    if others:
        lines += ["", "The same kills and the same writers, with two relays as they are often written:", ""]
        lines += [*_table(others), "", _OTHERS]
    ending = [each for each in found if each.said is not None]
    if ending:
        lines += ["", "What no relay can repair is told, and the relay ends until someone decides:", ""]
        lines += table(_TOLD_COLUMNS, map(_told, ending), (2,))
    return lines


_OTHERS = (
    f"**{NAIVE}** (`tests/proofs/outbox/naive_poller.py`) reads rows above the last id every 100 ms, produces them, "
    "and writes that id down: a row that is committed below that id is never read. "
    f"**{AT_LEAST_ONCE}** (`tests/proofs/outbox/at_least_once.py`) reads a slot, and tells it what was produced: what "
    "was not told when it was killed is produced again, behind what came after it. Both have an idempotent producer."
)
_IN_ROUNDS = (
    "The broker keeps its records in the writers' database and [takes the rows itself](#without-a-relay): "
    "the same writers, the same comparison. The version is that of PostgreSQL."
)
_REPEAT = """### Repeat it

PostgreSQL comes as a wheel, or is the system's.

    make proof WHAT=outbox                    # a quarter of an hour; SEED=2 for other moments
    make proof WHAT=outbox BROKER=kafka       # Java, and ONCELOG_KAFKA_LIBS with Kafka's jars
    make proof WHAT=outbox KILLS=1000 ARGS='--only kills --carriers wal'
    make proof WHAT=outbox ARGS='--only round_kills round_crashes --postgres 15'
    make proof WHAT=outbox ARGS=numbers       # what it costs, on a quiet machine

A part that is run again replaces its row. The exit code is 1 if anything was missing, doubled, out of order, or rolled
back and yet read, or if a loss was not told.
"""


def _table(found: Iterable[Found]) -> Iterable[str]:
    found = list(found)
    second = "version" if found and found[0].kind in ROUNDS else "carrier"
    return table(("", second, *_COLUMNS), map(_row, found), range(2, 2 + len(_COLUMNS)))


def _row(found: Found) -> tuple[object, ...]:
    if found.kind in ROUNDS:
        first = ROUND_PARTS[found.part], found.postgres
    else:
        first = (_PARTS[found.part], found.kind) if found.kind in CARRIERS else (f"{found.kind}, killed (-9)", "–")
    counted = found.counted
    written = found.faults, counted.commits, counted.rollbacks, counted.events
    return *first, *written, *(getattr(counted, name) for name in _WRONG)


def _told(found: Found) -> tuple[object, ...]:
    counted = found.counted
    after = "–" if (found.part, found.kind) == ("lost", "poll") else f"{counted.missing}, {counted.doubled}"
    said = f"{(found.said or '**nothing**').partition(': ')[0]} …"
    return _PARTS[found.part], found.kind, found.lost, after, said
