"""What is committed: writers that publish, and keep in the same SQL transaction what they published.

An event is named by its writer, its transaction and its number there. It changes a row, and has the row's version:
the lock of a row is held until the commit, so versions are in the order of commits. What is rolled back, whole or to a
savepoint, its writer knows. Of a commit without an answer only the database knows, and it is the one that is asked.

Some have headers of `HEADER_BYTES`, and some must be put aside with a reason, once: they are of no item. What
`oncelog.produce` must refuse, headers that are not UTF-8, is counted with what is rolled back. Each kind is among the
first that are written, however slow the machine is.
"""

import threading
import time
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

ITEMS = 60
TOPICS = {"orders": 3, "stock": 1, "mail": 2}
"""With their partitions."""
HEADER_BYTES, HEADER_EACH = 20_000, 50
"""Each so many versions of a row it has such a header, which takes a few hundred bytes of a table."""
ASIDE = -1
"""The item of what must be put aside."""
REFUSED = "proof.refused"
"""Where a relay puts it."""
_NO_PAIRS = "insert into {table} (topic, key, value, headers) values (target, 'k', convert_to(event, 'UTF8'), '1');"
_NO_TOPIC = "perform oncelog.produce('missing', 'k', event);"
_WRITERS = 4
_PAUSE_S = 0.1
_SCHEMA = """
create schema proof;
create table proof.items (id int primary key, topic text, version int not null default 0);
create table proof.produced (event text primary key, item int not null, version int not null);
create function proof.change(event text, item int) returns void language plpgsql as $$
declare changed int; target text;
begin
    update proof.items set version = version + 1 where id = item returning version, topic into changed, target;
    insert into proof.produced values (event, item, changed);
    perform oncelog.produce(
        target, item::text, event || ' ' || item || ' ' || changed,
        case when changed % {each} = 0 then jsonb_build_object('h', repeat('x', {size})) end
    );
end $$;
create function proof.aside(event text, target text) returns void language plpgsql as $$ begin
    insert into proof.produced values (event, {aside}, 0);
    {put}
end $$;
create function proof.never(event text, target text) returns void language plpgsql as $$ begin
    perform oncelog.produce(target, 'k', event, jsonb_build_object('h', convert_from('\\xff', 'SQL_ASCII')));
    raise 'headers that are not UTF-8 were taken';
exception when character_not_in_repertoire then null;
end $$
"""


class Change(NamedTuple):
    """An event, as it is in the database and in Kafka."""

    event: str
    item: int
    version: int


@dataclass
class Ledger:
    """The ledger of one database; a failover may change `dsn`."""

    dsn: str
    prefix: str
    """Prefix of the topics' names."""
    seed: int
    table: str | None = None
    """Where events can be inserted by hand that are none; None: one that must be put aside is of no topic."""
    has_aside: bool = True
    """Whether there are some that must be put aside."""
    rate: float = 300.0
    """Commits a second, of all writers."""
    writers: list["Writer"] = field(default_factory=list)

    def create(self) -> None:
        """Makes the tables; `oncelog outbox install` was before."""
        with connected(self.dsn) as connection:
            put = _NO_TOPIC if self.table is None else _NO_PAIRS.format(table=self.table)
            connection.execute(_SCHEMA.format(each=HEADER_EACH, size=HEADER_BYTES, aside=ASIDE, put=put))
            topics = [*TOPICS]
            for item in range(ITEMS):
                topic = f"{self.prefix}.{topics[item % len(topics)]}"
                connection.execute("insert into proof.items values (%s, %s, %s)", [item, topic, item % HEADER_EACH])

    def start(self) -> None:
        """New writers, beside what earlier ones have committed."""
        first = len(self.writers)
        fresh = [Writer(self, number) for number in range(first, first + _WRITERS)]
        self.writers += fresh
        for writer in fresh:
            writer.start()

    def stop(self) -> None:
        for writer in self.writers:
            writer.ends.set()
        for writer in self.writers:
            writer.join()

    def committed(self) -> list[Change]:
        with connected(self.dsn) as connection:
            rows = connection.execute("select event, item, version from proof.produced").fetchall()
        return [Change(*row) for row in rows]

    def rolled_back(self) -> set[str]:
        return {event for writer in self.writers for event in writer.rolled_back}

    def acknowledged(self) -> set[str]:
        """Events whose commit was answered."""
        return {event for writer in self.writers for event in writer.acknowledged}


class Writer(threading.Thread):
    def __init__(self, ledger: Ledger, number: int) -> None:
        super().__init__(daemon=True)
        self.ends = threading.Event()
        self.rolled_back: list[str] = []
        self.acknowledged: list[str] = []
        self.commits = self.rollbacks = 0
        self._ledger, self._number = ledger, number
        self._random = Random(f"{ledger.seed} {number}")

    def run(self) -> None:
        from psycopg import Error

        interval_s = _WRITERS / self._ledger.rate
        next_s = time.monotonic()
        number = 0
        while not self.ends.is_set():
            try:
                with connected(self._ledger.dsn) as connection:
                    while not self.ends.is_set():
                        number += 1
                        self._write(connection, number)
                        next_s = max(next_s + interval_s, time.monotonic() - interval_s)
                        self.ends.wait(max(0.0, next_s - time.monotonic()))
            except Error:  # the database is away: its ledger says whether the last one was committed
                self.ends.wait(_PAUSE_S)

    def _write(self, connection: Any, number: int) -> None:
        events = [f"{self._number}.{number}.{ordinal}" for ordinal in range(self._size())]
        items = sorted(self._random.randrange(ITEMS) for _ in events)  # sorted, so that no two wait for each other
        kind = self._random.random()
        kept = events
        statements = ["begin", _changes(events, items)]
        if kind < 0.1:
            kept = []
            self.rolled_back += events
        elif kind < 0.2:
            never = f"{self._number}.{number}.never"
            self.rolled_back.append(never)
            statements += ["savepoint here", _changes([never], [ITEMS - 1]), "rollback to here"]
        topic = f"{self._ledger.prefix}.{self._random.choice([*TOPICS])}"
        if number == 1 or self._random.random() < 0.02:
            never = f"{self._number}.{number}.not UTF-8"
            self.rolled_back.append(never)
            statements.append(f"select proof.never('{never}', '{topic}')")
        if self._ledger.has_aside and kept and (not self.acknowledged or self._random.random() < 0.02):
            aside = f"{self._number}.{number}.aside"
            kept = [*kept, aside]
            statements.append(f"select proof.aside('{aside}', '{topic}')")
        if self._random.random() < 0.03:
            statements.append(f"select pg_sleep({self._random.uniform(0.005, 0.05):.3f})")
        statements.append("commit" if kept else "rollback")
        connection.execute("; ".join(statements))  # one message to the server
        self.acknowledged += kept
        self.commits += bool(kept)
        self.rollbacks += kind < 0.2

    def _size(self) -> int:
        return 200 if self._random.random() < 0.003 else self._random.randint(1, 4)


def _changes(events: list[str], items: list[int]) -> str:
    return "select " + ", ".join(f"proof.change('{event}', {item})" for event, item in zip(events, items, strict=True))


def connected(dsn: str) -> Any:
    """A connection, each of whose statements commits by itself."""
    import psycopg

    return psycopg.connect(dsn, autocommit=True, client_encoding="UTF8")
