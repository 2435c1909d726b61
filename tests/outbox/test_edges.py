"""Events of every encoding and size at the edges, in databases of three encodings: each is carried as it is, or named.

Named means that the SQL transaction fails, or that the event is put aside with the reason. The auditor asks PostgreSQL
what each text is in UTF-8, and compares that with the records.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from oncelog.broker.storage.shared.tables import LARGEST_BYTES
from oncelog.testing import Broker
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.refusals import Refusals
from tests.outbox.postgres_world import Shop
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres

psycopg = pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
pytest.importorskip("asyncpg", reason="asyncpg is not installed")
ENCODINGS = ("UTF8", "SQL_ASCII", "LATIN1")
ROUND = "round"
CARRIERS = ("wal", "table", "poll", ROUND)
_ALWAYS = {"wal": "SQL_ASCII", "table": "UTF8", "poll": "LATIN1", ROUND: "SQL_ASCII"}
"""The encoding with which `make test` tries all events; `make test-all` tries each with each."""
_TEXTS = (
    b"",
    b"plain",
    "ü€\U0001f600".encode(),
    b"\xfc",
    b"k\xff\xfe",
    b"\xed\xa0\x80",  # half of a pair, as UTF-8 has none
    b"\xc0\x80",
    b'"\\\x01\x1f\x7f',
    b"\\x00\\u0000",
    b"\xe2\x82",
)
_BYTES = b"ab\\\"'\x01\x7f\x80\xa0\xc3\xa9\xe2\x82\xac\xed\xf0\xff"
_RANDOM_TEXTS = 20
_END = b"the end"


@dataclass(frozen=True)
class Attempt:
    """A statement that would publish an event, named by its key or its value."""

    name: str
    statement: str
    key: str | None
    """An expression in SQL for the record's key in bytes, if there is a record; None if there must be none."""
    value: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    kept_bytes: int = 0
    """The size of the value that is put aside."""


def text(raw: bytes) -> str:
    """These bytes as a text of the database, whatever encoding it has; PostgreSQL checks them as text of that."""
    return f"convert_from(decode('{raw.hex()}', 'hex'), getdatabaseencoding())"


def utf8(text_sql: str) -> str:
    return f"convert_to({text_sql}, 'UTF8')"


def name_of(number: int) -> tuple[str, str]:
    name = f"event {number}"
    return name, f"'{name}'::text"


def by_function(random: Random, *, with_sizes: bool) -> Iterator[Attempt]:
    texts = [*_TEXTS, *(bytes(random.choices(_BYTES, k=random.randint(1, 6))) for _ in range(_RANDOM_TEXTS))]
    number = 0
    for raw in texts:
        for where in ("key", "value", "header", "header's name"):
            number += 1
            name, own = name_of(number)
            key, value = (own, text(raw)) if where == "value" else (text(raw) if where == "key" else "'k'::text", own)
            header = {"header": ("'h'::text", text(raw)), "header's name": (text(raw), "'h'::text")}.get(where)
            given = "null" if header is None else f"jsonb_build_array(jsonb_build_array({header[0]}, {header[1]}))"
            headers = () if header is None else ((utf8(header[0]), utf8(header[1])),)
            statement = f"select oncelog.produce('events', {key}, {value}, {given})"
            yield Attempt(name, statement, utf8(key), utf8(value), headers)
    if not with_sizes:
        return
    for size in (LARGEST_BYTES - 100, LARGEST_BYTES + 1):
        number += 1
        name, own = name_of(number)
        kept = size - 7 if size <= LARGEST_BYTES else 0  # the function takes it, and the topic does not
        yield Attempt(name, f"select oncelog.produce('events', {own}, repeat('x', {size - 7}))", None, kept_bytes=kept)
    number += 1
    name, own = name_of(number)
    large = f"jsonb_build_object('h', repeat('x', {LARGEST_BYTES}))"  # a few hundred kB of the table
    yield Attempt(name, f"select oncelog.produce('events', 'k', {own}, {large})", None)


def by_hand(table: str, *, with_sizes: bool) -> Iterator[Attempt]:
    """Rows that the function would not write."""
    number = 1_000
    columns = {"topic": "'events'", "headers": "null", "partition": "null", "at": "now()"}
    wrong: list[dict[str, str]] = [
        *({"topic": text(raw)} for raw in (*_TEXTS, b"events\xff", b"x" * 250)),
        *({"headers": f"jsonb_build_array(jsonb_build_array('h', {text(raw)}))"} for raw in (b"\xff\xfe", b"\xc0\x80")),
        *({"headers": f"'{each}'::jsonb"} for each in ("1", '"x"', '{"a": "b"}', "[1]", '[["a"]]', "[[null, 1]]")),
        {"headers": f"jsonb_build_array(jsonb_build_array('h', repeat('x', {LARGEST_BYTES})))"},
        {"headers": f"jsonb_build_array(jsonb_build_array('h', repeat(chr(1), {LARGEST_BYTES // 2})))"},
        *({"partition": each} for each in ("-1", "99", "2147483647")),
    ]
    good = [{"headers": "'{}'::jsonb"}] + [
        {"at": f"'{each}'::timestamptz"} for each in ("infinity", "-infinity", "4000-01-01 BC", "290000-01-01")
    ]
    for is_good, changes in [*((False, each) for each in wrong), *((True, each) for each in good)]:
        number += 1
        name, own = name_of(number)
        row = {**columns, **changes}
        statement = (
            f"insert into {table} (topic, key, value, headers, partition, at) values ({row['topic']}, 'k', {utf8(own)},"
            f" {row['headers']}, {row['partition']}, {row['at']})"
        )
        if is_good:
            yield Attempt(name, statement, "'k'::bytea", utf8(own))
        elif changes.get("headers", "").startswith("jsonb_build_array(jsonb_build_array('h', convert"):
            raw = changes["headers"].partition("'h', ")[2][:-2]
            yield Attempt(name, statement, "'k'::bytea", utf8(own), ((utf8("'h'::text"), utf8(raw)),))
        else:
            yield Attempt(name, statement, None)
    if not with_sizes:
        return
    name, own = name_of(number + 1)
    size = LARGEST_BYTES * 2
    statement = f"insert into {table} (topic, key, value) values ('events', {utf8(own)}, repeat('x', {size})::bytea)"
    yield Attempt(name, statement, None, kept_bytes=size)


class Auditor:
    """Statements that were tried, and the records that they must leave."""

    def __init__(self) -> None:
        self.committed: dict[str, Attempt] = {}
        self.failed: dict[str, str] = {}
        self.expected: dict[str, Any] = {}

    def attempt(self, connection: Any, attempt: Attempt) -> None:
        try:
            connection.execute(attempt.statement)
        except psycopg.Error as error:
            self.failed[attempt.name] = str(error)
            return
        self.committed[attempt.name] = attempt
        with suppress(psycopg.Error):  # it is no UTF-8: then there can be no record
            self.expected[attempt.name] = self._record(connection, attempt)

    def _record(self, connection: Any, attempt: Attempt) -> Any:
        if attempt.key is None:
            return None
        (key, value) = connection.execute(f"select {attempt.key}, {attempt.value}").fetchone()
        headers = [connection.execute(f"select {name}, {value}").fetchone() for name, value in attempt.headers]
        return key, value, [(name.decode(), value) for name, value in headers]

    def audit(self, records: list[Any], refused: list[tuple[bytes, bytes | None, str]]) -> None:
        """`refused`: key, value and reason of each."""
        of_records: dict[str, list[Any]] = {}
        for record in records:
            name = _name(record.key, record.value)
            of_records.setdefault(name, []).append((record.key, record.value, [*record.headers]))
        of_refused: dict[str, list[tuple[bytes | None, str]]] = {}
        for key, value, reason in refused:
            of_refused.setdefault(_name(key, value), []).append((value, reason))
        assert not (self.failed.keys() & (of_records.keys() | of_refused.keys())), "it failed, and is there"
        for name, attempt in self.committed.items():
            expected = self.expected.get(name)
            there = of_records.get(name, []), of_refused.get(name, [])
            if expected is not None:
                assert there == ([expected], []), attempt.statement[:300]
                continue
            assert not there[0] and len(there[1]) == 1 and there[1][0][1], (attempt.statement[:300], there[1])
            assert not attempt.kept_bytes or len(there[1][0][0] or b"") == attempt.kept_bytes, (
                "what is put aside is whole"
            )
        assert of_records.keys() | of_refused.keys() == self.committed.keys() | {"?"}, "the end is the only other one"


def _name(key: bytes | None, value: bytes | None) -> str:
    for each in (value, key):
        if each is not None and each.startswith(b"event "):
            return each.decode()
    return "?"


@dataclass
class Edge:
    """A database, in which something carries events."""

    shop: Shop
    dsn: str
    table: str | None
    broker: Broker

    async def carry(self, count: int) -> tuple[list[Any], list[tuple[bytes, bytes | None, str]]]:
        """Returns the records of so many events, and what was put aside."""
        if self.shop.carrier == ROUND:  # type: ignore[comparison-overlap]
            async with asyncio.timeout(PATIENCE_S):
                while self._fetched("select count(*) from oncelog.oncelog_outbox") != [(0,)]:
                    await asyncio.sleep(0)
            return self.broker.records("events"), self._fetched(
                "select key, value, reason from oncelog.oncelog_outbox_refused"
            )
        refusals = Refusals(self.shop.name, table="public.refused", dsn=self.dsn)
        async with self.shop.relaying(refusals=refusals) as running, asyncio.timeout(PATIENCE_S):
            while running.notes.events < count:
                await asyncio.wait((running.task,), timeout=0.05)
                if running.task.done():
                    running.task.result()
        return self.broker.records("events"), self._fetched("select key, value, reason from public.refused")

    def _fetched(self, statement: str) -> list[Any]:
        with connected(self.dsn) as connection:
            return list(connection.execute(statement).fetchall())


def connected(dsn: str) -> Any:
    """A connection whose text nothing converts: it is ASCII, and the rest is bytes."""
    return psycopg.connect(dsn, autocommit=True)


@pytest.fixture(params=CARRIERS)
async def edge(server: Postgres, broker: Broker, request: pytest.FixtureRequest, encoding: str) -> AsyncIterator[Edge]:
    shop = Shop(server, broker, request.param)
    shop.database = shop.name
    options = f"template template0 encoding '{encoding}' lc_collate 'C' lc_ctype 'C'"
    async with await sql.connect(server.dsn) as connection:
        await connection.execute(f"create database {shop.database} {options}")  # type: ignore[arg-type]
    if request.param == ROUND:
        config = {"oncelog.postgres.schema": "oncelog", "oncelog.postgres.allow.loss": True}
        with Broker(storage=shop.dsn, config=config) as own:
            own.create_topic("events")
            yield Edge(shop, shop.dsn, "oncelog.oncelog_outbox", own)
        return
    await shop.install()
    yield Edge(shop, shop.dsn, None if request.param == "wal" else "oncelog.outbox", broker)
    await shop.drop()


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("edge", "encoding"),
    [
        pytest.param(carrier, encoding, marks=[] if encoding == _ALWAYS[carrier] else pytest.mark.slow)
        for carrier in CARRIERS
        for encoding in ENCODINGS
    ],
    indirect=["edge"],
)
async def test_each_event_is_carried_as_it_is_or_named(edge: Edge, encoding: str) -> None:
    auditor = Auditor()
    random = Random(f"{encoding} {edge.shop.carrier}")
    attempts = [*by_function(random, with_sizes=encoding == "SQL_ASCII")]
    if edge.table:
        attempts += by_hand(edge.table, with_sizes=encoding == "SQL_ASCII")
    with connected(edge.dsn) as connection:
        for attempt in attempts:
            auditor.attempt(connection, attempt)
        connection.execute("select oncelog.produce('events', 'k', %s::bytea)", [_END])
    auditor.audit(*await edge.carry(len(auditor.committed) + 1))
    carried = [each for each in auditor.expected.values() if each is not None]
    assert bool(auditor.failed) == (encoding != "LATIN1"), "any bytes are text there, and all of it is in UTF-8, too"
    assert len(carried) >= 20 and (len(auditor.committed) > len(carried) or edge.table is None)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("encoding", ENCODINGS[:1])
async def test_what_a_prepared_transaction_has_produced_is_there_once_it_is_committed(
    edge: Edge, encoding: str
) -> None:
    """Nothing of a prepared transaction that is rolled back is there, with every carrier."""
    with connected(edge.dsn) as connection:
        for name in ("event 1", "event 2"):
            connection.execute("begin")
            connection.execute("select oncelog.produce('events', 'k', %s::text)", [name])
            connection.execute(f"prepare transaction '{edge.shop.name} {name}'")
        connection.execute(f"rollback prepared '{edge.shop.name} event 1'")
        connection.execute(f"commit prepared '{edge.shop.name} event 2'")
        connection.execute("select oncelog.produce('events', 'k', %s::bytea)", [_END])
    records, _ = await edge.carry(2)
    assert sorted(each.value for each in records) == [b"event 2", _END]


@pytest.mark.parametrize("edge", ["poll", ROUND], indirect=True)
@pytest.mark.parametrize("encoding", ENCODINGS[:1])
async def test_a_database_that_prepares_no_transaction_may_have_its_notifications_back(
    edge: Edge, encoding: str
) -> None:
    with connected(edge.dsn) as connection, connected(edge.dsn) as listener:
        listener.execute("listen oncelog_outbox")
        connection.execute("select oncelog.produce('events', 'k', 'silent'::text)")
        connection.execute("set oncelog.notify = on")
        connection.execute("select oncelog.produce('events', 'k', 'loud'::text)")
        pids = [each.pid for each in listener.notifies(timeout=PATIENCE_S, stop_after=1)]
        assert pids == [connection.info.backend_pid]
        assert not [*listener.notifies(timeout=0)], "the first one has notified"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("edge", CARRIERS[:-1], indirect=True)
@pytest.mark.parametrize("encoding", ENCODINGS[:1])
async def test_an_outbox_of_an_older_release_is_upgraded_by_installing_again(edge: Edge, encoding: str) -> None:
    """Rights that were granted stay, and what the older function has written is carried or named. A start of the broker
    replaces its functions."""
    large = f"select oncelog.produce('events', 'k', 'event 1', jsonb_build_object('h', repeat('x', {LARGEST_BYTES})))"
    signature = "oncelog.produce(text, bytea, bytea, jsonb, integer)"
    with connected(edge.dsn) as connection:
        (body,) = connection.execute("select pg_get_functiondef(%s::regprocedure)", [signature]).fetchone()
        unchecked = body.replace(f"if size > {LARGEST_BYTES} then", "if false then")
        assert unchecked != body
        connection.execute(unchecked)
        connection.execute(f"create role {edge.shop.name} login")
        connection.execute(f"grant execute on function {signature} to {edge.shop.name}")
        connection.execute(large)
        await edge.shop.install()
        with pytest.raises(psycopg.Error, match=f"at most {LARGEST_BYTES} are taken"):
            connection.execute(large)
        has_right = "select has_function_privilege(%s, %s, 'execute')"
        assert connection.execute(has_right, [edge.shop.name, signature]).fetchone() == (True,)
        connection.execute("select oncelog.produce('events', 'k', %s::bytea)", [_END])
        connection.execute(f"drop owned by {edge.shop.name}")
        connection.execute(f"drop role {edge.shop.name}")
    records, refused = await edge.carry(2)
    assert [each.value for each in records] == [_END]
    assert [value for _, value, _ in refused] == [b"event 1"]
