"""What was found: one line of JSON for each part and version of PostgreSQL, and the page that is written from these."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

from tests.proofs.clients.client import Ledger
from tests.proofs.postgres.verdict import Counted
from tests.proofs.table import Kept, listed, own_version, system, table, today

LOSING = ("lost", "restored", "copied", "dumped")
"""The parts in which the database loses what it had acknowledged: noticing it is what can be wanted."""


@dataclass(frozen=True, slots=True)
class Saw:
    """The errors of one client, and its longest transaction."""

    errors: Mapping[str, int]
    told: Mapping[str, int]
    """The follower's errors for positions that are not in the log any more."""
    longest_ms: int
    """The longest time from the beginning of a transaction to its end."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one part."""

    part: str
    postgres: str
    """The version of PostgreSQL."""
    faults: int
    counted: Mapping[str, Counted]
    """The counts of each client."""
    saw: Mapping[str, Saw]
    said: Sequence[str]
    """The brokers' words when they ended, or started on a database that had lost records; the times of take-overs."""
    strange: Sequence[str]
    """Some of what is wrong, by name."""
    seed: int
    seconds: float
    date: str = field(default_factory=today)
    oncelog: str = field(default_factory=own_version)
    """The version of oncelog."""
    system: str = field(default_factory=system)

    @property
    def total(self) -> Counted:
        return reduce(add, self.counted.values(), Counted())

    @property
    def is_bad(self) -> bool:
        total = self.total
        if self.part in LOSING:
            was_told = all(saw.told for name, saw in self.saw.items() if self.counted[name].unseen)
            return bool(total.wrong or not total.gone or not was_told or not all(self.said))
        if self.part == "full" and self.said:
            return True  # the broker has ended, where it should have continued
        return bool(total.wrong or total.gone or total.unseen)


def saw_of(ledger: Ledger) -> Saw:
    return Saw(dict(ledger.errors), dict(ledger.told), ledger.longest_ms)


def _found(line: dict[str, Any]) -> Found:
    counted = {name: Counted(**each) for name, each in line["counted"].items()}
    saw = {name: Saw(**each) for name, each in line["saw"].items()}
    return Found(**{**line, "counted": counted, "saw": saw})


KEPT = Kept(
    _found,
    key=lambda found: (found.part, found.postgres.partition(".")[0]),
    order=lambda found: ([*PARTS].index(found.part), found.postgres),
)


# --- the page ---------------------------------------------------------------------------------------------------------

PARTS = {
    "kills": "the broker is killed (-9) and started again",
    "cuts": "its connections to PostgreSQL are cut",
    "crashes": "PostgreSQL is stopped `immediate` and started again",
    "takeovers": "the leader of two is killed, sleeps (SIGSTOP) past its lease, or hands over; PostgreSQL crashes, too",
    "fresh": "the leader of two is killed; the tables are new, or restored from a dump, and were never analyzed",
    "three": "the same of three, every 24 s; at times two of them are killed, or one that stands by is",
    "changes": "the same of two; between take-overs the primary crashes, and its synchronous standby is promoted",
    "partitions": "of three, some are cut off from PostgreSQL, from clients or from both: packets are dropped",
    "full": "the disk of PostgreSQL is full for a while",
    "promoted": "the primary crashes, a synchronous standby is promoted",
    "lost": "the primary crashes, an asynchronous standby that lacks commits is promoted",
    "restored": "PostgreSQL is taken back to a copy of its files (pg_basebackup) below the broker",
    "copied": "the same while no broker runs, and the next one is told",
    "dumped": "PostgreSQL is taken back to a dump (pg_dump) while no broker runs",
}
_BEGINNING = """## Records in PostgreSQL, under faults

Written by `make proof WHAT=postgres` from [the newest results of each part](postgres-proof.jsonl). Three clients
(librdkafka's, Java's and this project's) write transactions of four records, one to each of four partitions, and abort
one in seven; each copies what it has written in further transactions together with its group's offsets, and each
follows its topic as a reader. Afterwards the topics are read at read_committed and compared with what the clients were
told.
"""
_COLUMNS = {
    "acknowledged": "acknowledged",
    "aborted": "aborted",
    "unknown": "unknown",
    "copied": "records copied",
    "lost": "lost",
    "doubled": "doubled",
    "torn": "torn",
    "aborted_seen": "aborted, yet seen",
    "ghosts": "ghosts",
    "disordered": "out of order",
}
_LOSING_COLUMNS = {"gone": "transactions gone", "unseen": "records gone that were read", **_COLUMNS}
_MEANING = """A transaction is *unknown* if its commit was asked for and no answer said what became of it; it is there
whole or not at all. *Lost*: acknowledged and not there, or not copied; *doubled*: a record or its copy is there twice;
*torn*: there in part; *ghosts*: nobody wrote it, or a reader got it and it is not in the log. Clients wait five seconds
for an answer, and their transactions time out after sixty, as is Java's default; in rows of before 0.0.0.dev1700 after
thirty.

Where a standby of PostgreSQL is promoted, the leader continues, or takes the lease again if it expired. Each new leader
fences transactional producers, as [after a restore](postgres.md#after-a-restore), since it cannot know that the standby
had everything. So with promotions producers are fenced, and what they had under way is unknown.
"""
_REPEAT = """### Repeat it

PostgreSQL comes as a wheel, or is the system's: each major version that is installed is taken. Java needs
ONCELOG_KAFKA_LIBS with Kafka's jars (`make interop` fetches them), and a full disk needs root, which mounts one.

<!-- not run: it takes an hour; tests/daemon/test_postgres_proof.py has a short run -->

    make proof WHAT=postgres                                # an hour; SEED=2 for other moments
    make proof WHAT=postgres KILLS=100 ARGS='--only kills --versions 18'
    make proof WHAT=postgres ARGS='--only three --versions 18 --minutes 60'
    make proof WHAT=postgres ARGS='--only lost --json'      # the results instead of the page

A part that is run again replaces its row. Networks that are cut need root, `ip` and `nft`. The exit
code is 1 if anything was lost, doubled, torn, out of order, aborted and yet seen, or if a loss was not noticed; such a
part keeps what brokers, clients and servers have said, and says where.
"""


def page(found: Sequence[Found]) -> str:
    """Return the section of docs/operate/postgres.md."""
    kept = [each for each in found if each.part not in LOSING]
    losing = [each for each in found if each.part in LOSING]
    total = reduce(add, (each.total for each in found), Counted())
    lines = [
        _BEGINNING,
        f"**{sum(each.faults for each in found):,} faults, {total.acknowledged:,} acknowledged transactions: "
        f"{total.lost} lost, {total.doubled} doubled, {total.torn} torn, {total.aborted_seen} aborted and yet seen**"
        f"{'; ' if losing else '.'}"
        + (f"{total.gone:,} that a database had lost, and that was noticed." if losing else ""),
        "",
        f"Seed {listed(str(each.seed) for each in found)}; PostgreSQL {listed(each.postgres for each in found)} with "
        f"its own settings for fsync; {listed(each.system for each in found)}.",
        "Each row says when it was run, and with which version of oncelog.",
        "",
        "### What must not be noticed",
        "",
        *_table(kept, _COLUMNS),
        "",
        _MEANING,
    ]
    if timed := [each for each in kept if each.part == "fresh"]:
        lines += ["### On tables that were never analyzed", "", *_said(timed)]
    if losing:
        lines += ["### What must be noticed", "", _LOSING, "", *_table(losing, _LOSING_COLUMNS)]
        lines += ["", "What brokers said:", "", *_said(losing)]
    lines += ["### What clients saw", "", *_seen(found), "", _REPEAT]
    return "\n".join(lines)


_LOSING = """Here the database has lost what it had acknowledged, which no broker can give back: the broker ends, the
next start says it, and readers that had read further are told. Nothing else may be wrong. No producer of before goes
on: each is fenced, and has to be opened again. One case the broker has to be told: a server on a copy of its own files
looks as if it had never been away, so before the next broker starts run
`update SCHEMA.oncelog_leader set place = ''`."""


def _table(found: Iterable[Found], columns: Mapping[str, str]) -> Iterator[str]:
    rows = (
        (
            PARTS[each.part],
            each.postgres,
            each.faults,
            *(getattr(each.total, name) for name in columns),
            f"{each.date}, {each.oncelog}",
        )
        for each in found
    )
    yield from table(("", "PostgreSQL", "faults", *columns.values(), "run"), rows, range(2, 3 + len(columns)))


def _said(found: Iterable[Found]) -> Iterator[str]:
    for text in dict.fromkeys(text for each in found for text in each.said):
        yield f"> {text}\n"


def _seen(found: Sequence[Found]) -> Iterator[str]:
    """Errors by name, of all parts of a kind."""
    yield from table(("", "client", "errors", "a reader was told", "longest wait"), _seen_rows(found), (4,))


def _seen_rows(found: Sequence[Found]) -> Iterator[tuple[str, ...]]:
    for part, title in PARTS.items():
        chosen = [each for each in found if each.part == part]
        for client in dict.fromkeys(name for each in chosen for name in each.saw):
            saw = [each.saw[client] for each in chosen if client in each.saw]
            errors: Counter[str] = Counter()
            told: Counter[str] = Counter()
            for each in saw:
                errors.update(each.errors)
                told.update(each.told)
            longest_s = max(each.longest_ms for each in saw) / 1000
            yield title, client, _counts(errors), _counts(told), f"{longest_s:.1f} s"


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common()) or "–"
