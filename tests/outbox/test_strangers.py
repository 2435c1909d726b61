"""Objects that another role has made first: no command uses one, and what is legitimate stays in use."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from oncelog.client.values.errors import ConfigError
from oncelog.sql_offsets.table import OffsetsTable
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.position import OutboxError
from tests.support.postgres.server import Postgres, open_directory, programs_by_version, reachable_programs

psycopg = pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_NUMBERS = count()
_TRAP = """
create function {0} returns {1} language plpgsql as $$ begin
  if current_user <> 'hostile' then execute 'alter role hostile superuser'; end if; return {2}; end $$"""
_EVIL = ("create schema evil", _TRAP.format("evil.trap()", "trigger", "new"), _TRAP.format("evil.one()", "int", "1"))
_TRIGGER = "create trigger trap before insert or update on {0} for each row execute function evil.trap()"
_RELAYS = "name text primary key, carrier text, slot_lsn pg_lsn, last_batch bigint default 0"
HOSTILE, ADMIN = "hostile", "postgres"

Acts = tuple[tuple[str, str], ...]
"""Statements, each with the role that executes it."""
_OPEN = ((ADMIN, "create schema oncelog; grant usage, create on schema oncelog to hostile"),)
_CLOSE = ((ADMIN, "revoke create on schema oncelog from hostile"),)
_TABLES = (
    (ADMIN, f"create schema oncelog; create table oncelog.relays({_RELAYS}, generation bigint default 0)"),
    (ADMIN, "create table oncelog.oncelog_schema(version int not null)"),
)
_TRAPS: Acts = tuple((HOSTILE, each) for each in _EVIL)
PLANTED: dict[str, tuple[Acts, str]] = {
    "the schema": (((HOSTILE, "create schema oncelog"),), "the schema oncelog belongs to hostile"),
    "the schema, with tables and triggers": (
        (
            (HOSTILE, "create schema oncelog"),
            *_TRAPS,
            (HOSTILE, f"create table oncelog.relays({_RELAYS}); create table oncelog.secret(value bytea)"),
            (HOSTILE, "create table oncelog.oncelog_schema(version int not null)"),
            (HOSTILE, _TRIGGER.format("oncelog.relays")),
            (HOSTILE, _TRIGGER.format("oncelog.oncelog_schema")),
        ),
        "the schema oncelog belongs to hostile",
    ),
    "a table with a trigger": (
        (*_OPEN, *_TRAPS, (HOSTILE, "create table oncelog.oncelog_schema(version int)"),
         (HOSTILE, f"create table oncelog.relays({_RELAYS})"),
         (HOSTILE, _TRIGGER.format("oncelog.oncelog_schema")), (HOSTILE, _TRIGGER.format("oncelog.relays")), *_CLOSE),
        "the table oncelog.oncelog_schema belongs to hostile",
    ),
    "a view in the place of a table": (
        (*_OPEN, *_TRAPS, (HOSTILE, "create view oncelog.relays as select 'x'::text as name, evil.one() as carrier"),
         *_CLOSE),
        "the view oncelog.relays belongs to hostile",
    ),
    "a table with a rule": (
        (*_OPEN, *_TRAPS, (HOSTILE, f"create table oncelog.relays({_RELAYS})"),
         (HOSTILE, "create rule r as on insert to oncelog.relays do also select evil.one()"), *_CLOSE),
        "the table oncelog.relays belongs to hostile",
    ),
    "a table with a default": (
        (*_OPEN, *_TRAPS, (HOSTILE, "create table oncelog.oncelog_schema(version int, n int default evil.one())"),
         *_CLOSE),
        "the table oncelog.oncelog_schema belongs to hostile",
    ),
    "a sequence": (
        (*_OPEN, (HOSTILE, "create sequence oncelog.oncelog_outbox_id_seq"), *_CLOSE),
        "the sequence oncelog.oncelog_outbox_id_seq belongs to hostile",
    ),
    "the function itself": (
        (*_OPEN,
         (HOSTILE, "create function oncelog.produce(topic text, key bytea, value bytea, headers jsonb default null, "
                   "partition integer default null) returns void language sql security definer as 'select'"), *_CLOSE),
        "the function oncelog.produce(text, bytea, bytea, jsonb, integer) belongs to hostile",
    ),
    "a function that would be a better match": (
        (*_OPEN, (HOSTILE, "create function oncelog.octet_length(int) returns int language sql as 'select 1'"),
         *_CLOSE),
        "the function oncelog.octet_length(integer) belongs to hostile",
    ),
    "an operator": (
        (*_OPEN, *_TRAPS,
         (HOSTILE, "create function evil.is_equal(text, int) returns bool language sql as 'select true'"),
         (HOSTILE, "create operator oncelog.= (leftarg = text, rightarg = int, function = evil.is_equal)"), *_CLOSE),
        "the operator oncelog.= belongs to hostile",
    ),
    "a type": (
        (*_OPEN, (HOSTILE, "create domain oncelog.bigint as pg_catalog.text"), *_CLOSE),
        'the type oncelog.bigint belongs to hostile',
    ),
    "a right to create": (_OPEN, "the role hostile may create objects in the schema oncelog"),
    "a right of all to create": (
        ((ADMIN, "create schema oncelog; grant create on schema oncelog to public"),),
        "every role may create objects in the schema oncelog",
    ),
    "a trigger on a table of ours": (
        (*_TABLES, *_TRAPS, (ADMIN, "grant usage on schema oncelog to hostile"),
         (ADMIN, "grant trigger on oncelog.relays to hostile"),
         (HOSTILE, _TRIGGER.format("oncelog.relays"))),
        "the function evil.trap() belongs to hostile",
    ),
    "a default of ours that calls a function of theirs": (
        (*_TABLES, *_TRAPS, (ADMIN, "alter table oncelog.relays alter last_batch set default evil.one()")),
        "the function evil.one() belongs to hostile",
    ),
    "a policy of ours that calls a function of theirs": (
        (*_TABLES, *_TRAPS, (ADMIN, "create policy p on oncelog.relays using (evil.one() = 1)")),
        "the function evil.one() belongs to hostile",
    ),
    "a child of a table of ours": (
        (*_TABLES, *_TRAPS, (HOSTILE, f"create table evil.child({_RELAYS}, generation bigint default 0)"),
         (ADMIN, "alter table evil.child inherit oncelog.relays")),
        "the table evil.child belongs to hostile",
    ),
    "the publication": (
        ((HOSTILE, "create publication oncelog_outbox"),), "the publication oncelog_outbox belongs to hostile"
    ),
}  # fmt: skip
READ_PASSES = ("a right to create", "a right of all to create")
"""Rights that are no danger to a command that creates nothing."""


@pytest.fixture(scope="module", params=sorted(programs_by_version()) or [0])
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    """A server of each version that is here."""
    if not request.param:
        pytest.skip("no PostgreSQL here")
    programs = programs_by_version()[request.param]
    with open_directory() as directory:
        found = Postgres(directory / "data", reachable_programs(programs, directory), {"fsync": "off"})
        act(found, "postgres", ((ADMIN, "create role hostile login; create role kafka login; create role shop login"),))
        try:
            yield found
        finally:
            found.stop("immediate")


def act(server: Postgres, database: str, acts: Acts) -> Any:
    """Executes each as its role; returns the rows of the last."""
    rows: Any = None
    for role, statement in acts:
        with psycopg.connect(server.dsn_of(database, role), autocommit=True) as connection:
            found = connection.execute(statement)
            rows = found.fetchall() if found.description else None
    return rows


def new_database(server: Postgres, options: str = "") -> str:
    name = f"strange_{next(_NUMBERS)}"
    act(server, "postgres", ((ADMIN, f"create database {name} {options}"),))
    act(server, name, ((ADMIN, f"grant create on database {name} to hostile"),))
    return name


# --- the commands -----------------------------------------------------------------------------------------------------


async def installs(dsn: str) -> None:
    async with await sql.connect(dsn) as connection:
        await sql.install(connection, "relay", "poll", (), replace_slot=False)


async def relays(dsn: str) -> None:
    """`run`, `status` and `remove` ask this first."""
    async with await sql.connect(dsn) as connection:
        await sql.find_relay(connection, "relay")


async def serves(dsn: str) -> None:
    """A broker, one that stands by, and `log import` begin so."""
    await _with_server(dsn, is_broker=True)


async def verifies(dsn: str) -> None:
    """`log verify`, `log export` and `nodes` begin so."""
    await _with_server(dsn, is_broker=False)


async def _with_server(dsn: str, *, is_broker: bool) -> None:
    from oncelog.broker.storage.postgres.preparing import connect, look, prepare
    from oncelog.broker.storage.postgres.session import Server
    from oncelog.broker.system.coroutines import LoopCoroutines
    from oncelog.broker.system.loop import LoopScheduler

    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    found = Server(dsn, "oncelog", LoopCoroutines(), scheduler)
    try:
        if is_broker:
            await prepare(found, may_lose=True)
            return
        connection = await connect(found)
        try:
            await look(found, connection)
        finally:
            await connection.close()
    finally:
        scheduler.close()


def refusal(work: Callable[[str], Awaitable[None]], dsn: str) -> str:
    """Returns the sentence with which the command ends; "" if it does not."""
    from oncelog.broker.storage.postgres.preparing import Unusable

    try:
        asyncio.run(work(dsn))  # type: ignore[arg-type]
    except (OutboxError, Unusable, ConfigError) as error:
        return str(error)
    return ""


@pytest.mark.sampled(7)
@pytest.mark.parametrize("command", [installs, relays, serves, verifies])
@pytest.mark.parametrize("planted", PLANTED)
def test_no_command_of_a_superuser_uses_what_a_stranger_has_made(
    server: Postgres, planted: str, command: Callable[[str], Awaitable[None]]
) -> None:
    """The sentence names the object, its owner and what to do; nothing of the stranger has run."""
    acts, sentence = PLANTED[planted]
    database = new_database(server)
    act(server, database, acts)
    said = refusal(command, server.dsn_of(database))
    if planted in READ_PASSES and command in (relays, verifies):
        assert "hostile" not in said
    else:
        assert sentence in said
        assert "connect as hostile" in said or "`revoke create on schema oncelog from" in said
    assert act(server, database, ((ADMIN, "select rolsuper from pg_roles where rolname = 'hostile'"),)) == [(False,)]


@pytest.mark.parametrize("command", [installs, serves])
def test_the_owner_of_the_database_is_no_exception_for_a_superuser(
    server: Postgres, command: Callable[[str], Awaitable[None]]
) -> None:
    """It may replace what is in its database, and no more."""
    database = new_database(server, "owner hostile")
    act(server, database, ((HOSTILE, "create schema oncelog"),))
    assert "the schema oncelog belongs to hostile" in refusal(command, server.dsn_of(database))
    assert not refusal(command, server.dsn_of(database, HOSTILE))


MEMBERSHIPS = {
    "create schema oncelog authorization hostile": "the schema oncelog belongs to hostile",
    "create schema oncelog authorization kafka; grant create, usage on schema oncelog to hostile": (
        "the role hostile may create objects in the schema oncelog"
    ),
}


@pytest.mark.parametrize("command", [installs, serves])
@pytest.mark.parametrize("planted", MEMBERSHIPS)
def test_a_role_that_makes_another_its_member_is_not_trusted_for_that(
    server: Postgres, planted: str, command: Callable[[str], Awaitable[None]]
) -> None:
    """Up to PostgreSQL 14 a role that logs in may do so by itself."""
    database = new_database(server)
    act(server, database, ((ADMIN, planted), (ADMIN, "grant hostile to kafka")))
    assert MEMBERSHIPS[planted] in refusal(command, server.dsn_of(database, "kafka"))
    act(server, database, ((ADMIN, "alter schema oncelog owner to hostile"),))
    assert not refusal(command, f"{server.dsn_of(database, 'kafka')}{_as_role(command, HOSTILE)}")
    act(server, database, ((ADMIN, "revoke hostile from kafka"),))


def _as_role(command: object, role: str) -> str:
    return f"?role={role}" if command is serves else f"?options=-crole%3D{role}"


LEGITIMATE: dict[str, tuple[Acts, str, str]] = {
    "an administrator makes the schema for the role": (
        ((ADMIN, "create schema oncelog authorization kafka"),), "kafka", "",
    ),
    "the role may create in a schema of an administrator": (
        ((ADMIN, "create schema oncelog; grant usage, create on schema oncelog to kafka"),), "kafka", "",
    ),
    "the role makes all by itself": (((ADMIN, "grant create on database {0} to kafka"),), "kafka", ""),
    "the role may create in a schema of the owner of the database": (
        ((HOSTILE, "create schema oncelog; grant usage, create on schema oncelog to kafka"),), "kafka", "owner hostile",
    ),
    "a superuser makes all": ((), ADMIN, ""),
    "others have views and tables of their own beside ours": (
        (*_OPEN, (HOSTILE, "create table oncelog.beside(n int)"), (HOSTILE, "create view oncelog.seen as select 1"),
         *_CLOSE), ADMIN, "",
    ),
}  # fmt: skip


@pytest.mark.sampled(5)
@pytest.mark.parametrize("command", [installs, serves])
@pytest.mark.parametrize("case", LEGITIMATE)
def test_what_is_legitimate_works_and_may_be_repeated(
    server: Postgres, case: str, command: Callable[[str], Awaitable[None]]
) -> None:
    acts, role, options = LEGITIMATE[case]
    database = new_database(server, options)
    act(server, database, tuple((who, statement.replace("{0}", database)) for who, statement in acts))
    for _ in range(2):
        assert not refusal(command, server.dsn_of(database, role))


def test_roles_that_were_given_rights_relay_and_watch_what_another_role_has_installed(server: Postgres) -> None:
    """The owner is no superuser, nor are they."""
    database = new_database(server)
    act(server, database, ((ADMIN, "create schema oncelog authorization shop"),))
    assert not refusal(installs, server.dsn_of(database, "shop"))
    rights = "grant usage on schema oncelog to kafka; grant select, update on oncelog.relays to kafka"
    act(server, database, (("shop", rights),))
    assert not refusal(relays, server.dsn_of(database, "kafka"))
    assert "the schema oncelog belongs to shop" in refusal(relays, server.dsn_of(database)), "with more to lose"
    other = new_database(server)
    act(server, other, ((ADMIN, "create schema oncelog authorization shop"),))
    assert not refusal(serves, server.dsn_of(other, "shop"))
    rights = "grant usage on schema oncelog to kafka; grant select on all tables in schema oncelog to kafka"
    act(server, other, (("shop", rights),))
    assert not refusal(verifies, server.dsn_of(other, "kafka"))
    assert "connect as shop" in refusal(verifies, server.dsn_of(other))


def test_a_place_for_what_is_refused_is_ours_or_none(server: Postgres) -> None:
    database = new_database(server)
    act(server, database, ((HOSTILE, "create schema theirs; create table theirs.refused(n int)"),))
    act(server, database, (*_TRAPS, (ADMIN, "grant create on schema public to hostile")))
    act(
        server,
        database,
        ((HOSTILE, "create table public.refused(n int)"), (HOSTILE, _TRIGGER.format("public.refused"))),
    )

    async def make(dsn: str, table: str) -> None:
        async with await sql.connect(dsn) as connection:
            await sql.make_refused(connection, table)

    for table, whose in (
        ("theirs.refused", "the schema theirs belongs to hostile"),
        ("theirs.new", "the schema theirs belongs to hostile"),
        ("public.refused", "the table public.refused belongs to hostile"),
        ("refused", "the table public.refused belongs to hostile"),
        ("public.good", ""),
        ("good", ""),
    ):
        said = refusal(lambda dsn, table=table: make(dsn, table), server.dsn_of(database))  # type: ignore[misc]
        assert whose in said and bool(said) == bool(whose), (table, said)


def test_a_table_of_offsets_is_ours_or_none(server: Postgres) -> None:
    database = new_database(server)
    act(server, database, (*_TRAPS, (ADMIN, "grant create on schema public to hostile, shop")))
    table = OffsetsTable("public.offsets", "group")
    act(server, database, ((HOSTILE, table.ddl), (HOSTILE, _TRIGGER.format("public.offsets"))))

    async def create(dsn: str, table: OffsetsTable) -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await table.create(connection)

    for role in (ADMIN, "shop"):
        dsn = server.dsn_of(database, role)
        said = refusal(lambda dsn: create(dsn, table), dsn)
        assert "belongs to hostile" in said and "offsets" in said
        for _ in range(2):
            own = OffsetsTable(f"public.of_{role}", "group")
            assert not refusal(lambda dsn, own=own: create(dsn, own), dsn)  # type: ignore[misc]
