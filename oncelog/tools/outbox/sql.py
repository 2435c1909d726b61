"""What the outbox is in the database: its schema, what makes it, and what takes it away.

Owns: every statement about `oncelog.relays`, the functions, the table, publication and slot. Does not own: reading
events (`slot_feed`, `table_feed`). Every step of `install` may be repeated, whatever was killed in between.

The table `oncelog.relays` has a row for each relay: which carrier, where its slot begins, how many batches were made of
the table, and why it ended last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from oncelog.broker.storage.postgres.asked import LOOK, SETTINGS
from oncelog.broker.storage.postgres.owners import OF_OUTBOX, PINNED_PATH, question, stranger_of, table_named
from oncelog.broker.storage.postgres.produce import NOTIFY, definitions, functions
from oncelog.tools.outbox.position import OutboxError, Position, lsn_of, lsn_text

if TYPE_CHECKING:
    from psycopg import AsyncConnection

Carrier = Literal["wal", "table", "poll"]
PREFIX = "oncelog"
"""The prefix of the messages in the write-ahead log."""
PUBLICATION = "oncelog_outbox"
LEAST_VERSION = 140000
DEFAULT_NAME = "oncelog_outbox"
SCHEMA = "oncelog"
_LOCK = "select pg_advisory_xact_lock(7954872183301440870)"
"""The lock against installations at the same time; no other lock uses this number."""
_SETTINGS = (
    PINNED_PATH,
    *(f"set {name} = '{value}'" for name, value in {**SETTINGS, "idle_in_transaction_session_timeout": "0"}.items()),
    "set bytea_output = hex",
    "set datestyle = iso",
    LOOK,
)
"""Statements for settings that a database or a role may have otherwise: values would be misread, writes refused,
sessions ended. A batch of the table is read in a transaction that is idle while Kafka is written: no timeout may end
it. `LOOK` makes the settings that only newer servers know."""

_RELAYS = """
create table oncelog.relays (
    name text primary key,
    carrier text not null check (carrier in ('wal', 'table', 'poll')),
    slot_lsn pg_lsn,
    last_batch bigint not null default 0,
    generation bigint not null default 0,
    installation bigint not null default (extract(epoch from clock_timestamp()) * 1000000)::bigint,
    last_error text,
    last_error_at timestamptz
)"""
_SECRET = """
create table oncelog.secret (value bytea primary key)"""
_NEW_SECRET = """
insert into oncelog.secret select uuid_send(gen_random_uuid()) where not exists (select from oncelog.secret)"""
_TABLE = """
create table oncelog.outbox (
    id bigint generated always as identity primary key,
    topic text not null,
    key bytea,
    value bytea,
    headers jsonb,
    partition integer,
    at timestamptz not null default clock_timestamp(),
    xid xid8 default pg_current_xact_id(),
    batch bigint
)"""
_TABLE_INDEX = "create index outbox_batch on oncelog.outbox (batch, id)"

_TO_LOG = """perform pg_logical_emit_message(true, 'oncelog',
        (select secret.value from oncelog.secret) || '\\x01'::bytea || int4send(coalesce(partition, -1))
        || int4send(octet_length(convert_to(topic, 'UTF8'))) || convert_to(topic, 'UTF8')
        || int4send(coalesce(octet_length(key), -1)) || coalesce(key, '')
        || int4send(coalesce(octet_length(value), -1)) || coalesce(value, '')
        || case when pairs is null then int4send(-1)
           else int4send(octet_length(convert_to(pairs::text, 'UTF8'))) || convert_to(pairs::text, 'UTF8') end);"""
_TO_TABLE = """insert into oncelog.outbox (topic, key, value, headers, partition)
        values (topic, key, value, pairs, partition);"""
_FUNCTIONS = functions("oncelog")
_REFUSED = """
create table {table} (
    relay text not null,
    installation bigint not null,
    transaction bigint not null,
    ordinal bigint not null,
    reason text not null,
    topic text,
    key bytea,
    value bytea,
    headers jsonb,
    partition integer,
    at timestamptz not null default clock_timestamp(),
    primary key (relay, installation, transaction, ordinal)
)"""

_ADVANCE = """
select pg_replication_slot_advance(%s, %s) from pg_replication_slots
where slot_name = %s and confirmed_flush_lsn < %s"""
_UNREAD = """
select count(*) from pg_logical_slot_peek_binary_changes(
    %s, null, 100000, 'proto_version', '1', 'publication_names', %s, 'messages', 'true'
)
where get_byte(data, 0) = ascii('I')
   or get_byte(data, 0) = ascii('M')
      and substring(data from 11 for 8) = convert_to('oncelog', 'UTF8') || '\\x00'::bytea"""


@dataclass(frozen=True, slots=True)
class Relay:
    """A row of `oncelog.relays`."""

    name: str
    carrier: Carrier
    slot_lsn: int
    last_batch: int
    generation: int
    """How often a relay has begun to read."""
    installation: int
    """The time of this installation of the name, in microseconds, which tells it from others."""


async def connect(dsn: str, name: str = DEFAULT_NAME, encoding: str = "UTF8", **options: Any) -> "AsyncConnection[Any]":
    """Return a connection, each of whose statements commits by itself, and whose text has this encoding. Raises
    OutboxError without psycopg, and psycopg.OperationalError."""
    try:
        from psycopg import AsyncConnection
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise OutboxError(f"the outbox needs psycopg ({error}): {how_to_install('postgres')}") from error
    connection = await AsyncConnection.connect(
        dsn, autocommit=True, application_name=f"oncelog-outbox {name}", client_encoding=encoding, **options
    )
    for setting in _SETTINGS:
        await connection.execute(setting)
    return connection


def database_error() -> type[Exception]:
    """Return what psycopg raises; without psycopg it has raised nothing."""
    try:
        from psycopg import Error
    except ImportError:
        return OutboxError
    found: type[Exception] = Error
    return found


async def check_owners(connection: "AsyncConnection[Any]", *, reads: bool) -> None:
    """Raises OutboxError before anything is read from, or written to, what an untrusted owner could have made."""
    rows = await connection.execute(question("%s", "%s", reads=reads), [SCHEMA, OF_OUTBOX])
    found = stranger_of(await rows.fetchall())
    if found is not None:
        raise OutboxError(found.sentence)


async def find_relay(connection: "AsyncConnection[Any]", name: str) -> Relay | None:
    """Return what was installed under this name. Raises OutboxError if an untrusted owner could have done it."""
    await check_owners(connection, reads=True)
    if not await _is_there(connection, "to_regclass", "oncelog.relays"):
        return None
    rows = await connection.execute(
        "select carrier, coalesce(slot_lsn, '0/0')::text, last_batch, generation, installation from oncelog.relays"
        " where name = %s",
        [name],
    )
    row = await rows.fetchone()
    return None if row is None else Relay(name, row[0], lsn_of(row[1]), *row[2:])


async def relays(connection: "AsyncConnection[Any]") -> list[tuple[str, str, str | None]]:
    """Return the name of each relay, its carrier, and why it ended last."""
    if not await _is_there(connection, "to_regclass", "oncelog.relays"):
        return []
    rows = await connection.execute("select name, carrier, last_error from oncelog.relays order by name")
    return [(name, carrier, error) for name, carrier, error in await rows.fetchall()]


async def has_broker(connection: "AsyncConnection[Any]") -> bool:
    """Return whether a broker in this database takes what oncelog.produce writes."""
    found = await one(
        connection,
        "select exists (select from pg_proc where oid = to_regprocedure(%s)"
        " and strpos(prosrc, '.oncelog_outbox (') > 0)",
        [_FUNCTIONS[0]],
    )
    return bool(found[0])


async def _check_broker(connection: "AsyncConnection[Any]") -> None:
    if await has_broker(connection):
        raise OutboxError(
            "a broker keeps its records in the schema oncelog of this database, and takes what oncelog.produce writes "
            "by itself: no relay is needed. For a relay to another cluster that broker needs another --schema"
        )


async def next_generation(connection: "AsyncConnection[Any]", name: str) -> int:
    """Count that a relay begins to read: a database that went back has a lower number than Kafka knows."""
    row = await one(
        connection, "update oncelog.relays set generation = generation + 1 where name = %s returning generation", [name]
    )
    return 0 if row is None else int(row[0])


async def secret(connection: "AsyncConnection[Any]") -> bytes:
    """Return what the messages of `oncelog.produce` begin with: anyone may write others with the same prefix."""
    row = await one(connection, "select value from oncelog.secret")
    if row is None:
        raise OutboxError("oncelog.secret is empty: `oncelog outbox install DSN` again")
    return bytes(row[0])


async def check_server(connection: "AsyncConnection[Any]", *, is_logical: bool) -> None:
    """Raises OutboxError for a server that cannot have an outbox."""
    version, level, recovers = await one(
        connection,
        "select current_setting('server_version_num')::int, current_setting('wal_level'), pg_is_in_recovery()",
    )
    if version < LEAST_VERSION:
        raise OutboxError(f"the server is PostgreSQL {version // 10000}: the outbox needs 14 or later")
    if recovers:
        raise OutboxError("the server is a standby: name the primary, or several with target_session_attrs=read-write")
    if is_logical and level != "logical":
        raise OutboxError(
            f"wal_level is {level}: set it to logical and start the server again (`alter system set wal_level = "
            "'logical'`); or read a table without the log: `oncelog outbox install --carrier poll`"
        )


async def install(
    connection: "AsyncConnection[Any]", name: str, carrier: Carrier, grants: Sequence[str], *, replace_slot: bool
) -> list[str]:
    """Make what is missing, and return a sentence for each. Raises OutboxError, and psycopg.Error."""
    await check_server(connection, is_logical=carrier != "poll")
    await check_owners(connection, reads=False)
    await _check_broker(connection)
    done: list[str] = []
    known = await find_relay(connection, name)
    if known is not None and (known.carrier == "poll") != (carrier == "poll"):
        raise OutboxError(
            f"{name} is installed with --carrier {known.carrier}, whose positions are others: `oncelog outbox remove` "
            "it first, or choose another --name"
        )
    async with connection.transaction():
        await connection.execute(_LOCK)
        if not await _is_there(connection, "to_regnamespace", SCHEMA):
            await connection.execute("create schema oncelog")
        await check_owners(connection, reads=False)
        await _create(connection, "oncelog.relays", _RELAYS)
        await _create(connection, "oncelog.secret", _SECRET)
        await connection.execute(_NEW_SECRET)
        await connection.execute(
            "insert into oncelog.relays (name, carrier) values (%s, %s)"
            " on conflict (name) do update set carrier = excluded.carrier",
            [name, carrier],
        )
        others = await (
            await connection.execute(
                "select name, carrier from oncelog.relays where name <> %s and (carrier <> %s or carrier = 'poll')",
                [name, carrier],
            )
        ).fetchone()
        if others is not None:
            raise OutboxError(
                f"{others[0]} is installed in this database with --carrier {others[1]}: oncelog.produce writes to one "
                f"carrier, and a table that is polled has one relay"
            )
        if carrier != "wal":
            await _create(connection, "oncelog.outbox", _TABLE)
            await _create(connection, "oncelog.outbox_batch", _TABLE_INDEX)
        if carrier != "poll":
            await _publish(connection, with_table=carrier == "table")
    done.append(f"schema oncelog, relay {name} with carrier {carrier}")
    if carrier != "poll":
        done.extend(await _make_slot(connection, name, has_table=carrier == "table", replace=replace_slot))
    await _make_functions(connection, carrier, grants)  # last: what is produced is read from the slot's beginning
    done.append("functions oncelog.produce(topic, key, value, headers, partition), for bytea, text and jsonb")
    done.extend(f"rights of {role}: to call them" for role in grants)
    return done


async def _make_functions(connection: "AsyncConnection[Any]", carrier: Carrier, grants: Sequence[str]) -> None:
    """Make or replace the functions of this release; rights that were granted stay."""
    from psycopg import sql

    body = _TO_LOG if carrier == "wal" else _TO_TABLE if carrier == "table" else f"{_TO_TABLE} {NOTIFY}"
    async with connection.transaction():
        for definition in definitions("oncelog", body):
            await connection.execute(definition)
        for function in _FUNCTIONS:
            await connection.execute(f"revoke all on function {function} from public")
        for role in grants:
            grantee = sql.Identifier(role)
            await connection.execute(sql.SQL("grant usage on schema oncelog to {}").format(grantee))
            for function in _FUNCTIONS:
                await connection.execute(
                    sql.SQL("grant execute on function {} to {}").format(sql.SQL(function), grantee)
                )


async def _is_there(connection: "AsyncConnection[Any]", look: str, name: str) -> bool:
    return bool((await one(connection, f"select {look}(%s) is not null", [name]))[0])


async def _create(connection: "AsyncConnection[Any]", name: str, statement: str) -> None:
    """Make what is not there. What is there was looked at (`check_owners`); what comes between is an error."""
    if not await _is_there(connection, "to_regclass", name):
        await connection.execute(statement)


async def _publish(connection: "AsyncConnection[Any]", *, with_table: bool) -> None:
    there = await one(connection, "select exists (select from pg_publication where pubname = %s)", [PUBLICATION])
    if not there[0]:
        await connection.execute(f"create publication {PUBLICATION} with (publish = 'insert')")
    has_table = await one(
        connection,
        "select exists (select from pg_publication_tables where pubname = %s and tablename = 'outbox')",
        [PUBLICATION],
    )
    if with_table and not has_table[0]:  # and it stays: a transaction may still add rows as it was installed before
        await connection.execute(f"alter publication {PUBLICATION} add table oncelog.outbox")


async def _make_slot(connection: "AsyncConnection[Any]", name: str, *, has_table: bool, replace: bool) -> list[str]:
    lost = await slot_trouble(connection, name)
    if lost and lost[0] != "gone" and not replace:
        raise OutboxError(
            f"the slot {name} was invalidated ({lost[0]}): what was committed after {lost[1]} is in no slot. "
            f"`oncelog outbox install --replace-slot` makes one that begins now"
        )
    known = await find_relay(connection, name)
    if lost and lost[0] == "gone" and known is not None and known.slot_lsn and not replace:
        raise OutboxError(
            f"the slot {name} is gone: what was committed and not relayed is in no slot. `oncelog outbox install "
            f"--replace-slot` makes one that begins now"
        )
    if replace and not (lost and lost[0] == "gone"):
        await connection.execute("select pg_drop_replication_slot(%s)", [name])
    if replace or lost:
        await connection.execute("update oncelog.relays set slot_lsn = null where name = %s", [name])
        version = await one(connection, "select current_setting('server_version_num')::int")
        survives = ", failover => true" if version[0] >= 170000 else ""
        await connection.execute(
            f"select pg_create_logical_replication_slot(slot_name => %s, plugin => 'pgoutput'{survives})",
            [name],
        )
    await connection.execute(
        "update oncelog.relays set slot_lsn = (select confirmed_flush_lsn from pg_replication_slots where slot_name "
        "= %s) where name = %s and slot_lsn is null",
        [name, name],
    )
    done = [f"slot {name}"]
    others = await one(connection, "select count(*) from oncelog.relays where name <> %s", [name])
    if has_table and (replace or lost) and not others[0]:
        # They are before the slot, so they must not count as relayed.
        before = await connection.execute("update oncelog.outbox set xid = null where xid is not null")
        if before.rowcount:
            done.append(
                f"{before.rowcount} rows of before in oncelog.outbox: no slot has them, and they stay (xid is null)"
            )
    return done


async def slot_trouble(connection: "AsyncConnection[Any]", name: str) -> tuple[str, str] | None:
    """Return why the slot cannot be read and what it has confirmed; None if it can. A slot that is not there is
    "gone"."""
    rows = await connection.execute(
        "select coalesce(to_jsonb(s) ->> 'invalidation_reason', case when wal_status = 'lost' then 'its WAL was "
        "removed: max_slot_wal_keep_size' end), confirmed_flush_lsn::text, plugin, database = current_database() "
        "from pg_replication_slots s where slot_name = %s",
        [name],
    )
    row = await rows.fetchone()
    if row is None:
        return "gone", ""
    if row[2] != "pgoutput" or not row[3]:
        raise OutboxError(f"there is a slot {name} of something else (plugin {row[2]}): choose another --name")
    return (row[0], row[1]) if row[0] else None


async def remove(connection: "AsyncConnection[Any]", name: str, position: Position | None, *, force: bool) -> list[str]:
    """Take away what is of this relay, which is at this position, and with the last one all. Raises OutboxError."""
    done: list[str] = []
    known = await find_relay(connection, name)
    slot = await (
        await connection.execute("select active_pid from pg_replication_slots where slot_name = %s", [name])
    ).fetchone()
    if slot is not None and slot[0] is not None:
        raise OutboxError(f"a relay reads the slot {name} (process {slot[0]} of the server): stop it first")
    if known is None and slot is None:
        raise OutboxError(f"no relay {name} is installed in this database")
    if (
        known is not None
        and not force
        and (left := await _left(connection, known, position, has_slot=slot is not None))
    ):
        raise OutboxError(f"{left} events are not relayed: run the relay, or repeat with --force")
    if slot is not None:
        await connection.execute("select pg_drop_replication_slot(%s)", [name])
        done.append(f"slot {name}")
    if known is not None:
        async with connection.transaction():
            await connection.execute("delete from oncelog.relays where name = %s", [name])
            others = await one(connection, "select count(*) from oncelog.relays")
            if not others[0]:
                for function in _FUNCTIONS:
                    await connection.execute(f"drop function if exists {function}")
                await connection.execute(f"drop publication if exists {PUBLICATION}")
                await connection.execute("drop table if exists oncelog.outbox, oncelog.relays, oncelog.secret")
                done.append("functions, tables, publication")
                rest = await one(
                    connection,
                    "select count(*) from pg_class where relnamespace = 'oncelog'::regnamespace and relkind = 'r'",
                )
                if not rest[0]:
                    await connection.execute("drop schema oncelog")
                    done.append("schema oncelog")
        done.insert(0, f"relay {name}")
    return done


async def _left(connection: "AsyncConnection[Any]", relay: Relay, position: Position | None, *, has_slot: bool) -> int:
    """Return how many events a relay that does not run has still to read, at least."""
    if relay.carrier == "poll":
        done = 0 if position is None else position.place
        row = await one(connection, "select count(*) from oncelog.outbox where batch is null or batch > %s", [done])
    elif has_slot and await slot_trouble(connection, relay.name) is None:
        if position is not None and position.origin.slot == relay.slot_lsn:  # a killed relay did not confirm it
            place = lsn_text(position.place)
            await connection.execute(_ADVANCE, [relay.name, place, relay.name, place])
        row = await one(connection, _UNREAD, [relay.name, PUBLICATION])
    else:
        return 0
    return int(row[0])


async def note_error(connection: "AsyncConnection[Any]", name: str, text: str | None) -> None:
    """Keep why the relay ended, or None once it runs."""
    await connection.execute(
        "update oncelog.relays set last_error = %s, last_error_at = now() where name = %s"
        " and last_error is distinct from %s",
        [text, name, text],
    )


async def place_of(connection: "AsyncConnection[Any]", table: str) -> tuple[str, str]:
    """Return the schema and the name of a table that `--refuse-to` names: without a schema it is in the one that the
    role and the database have for new tables."""
    schema, _, name = table.rpartition(".")
    if not schema:
        await connection.execute("reset search_path")
        schema = (await one(connection, "select pg_catalog.current_schema()"))[0]
        await connection.execute(PINNED_PATH)
    if not schema:
        raise OutboxError(f"--refuse-to table:{table}: there is no schema for it; write table:SCHEMA.{name}")
    return schema, name


async def make_refused(connection: "AsyncConnection[Any]", table: str) -> tuple[str, str]:
    """Make the table for what the target refuses, if it is not there; return its schema and name. Raises
    OutboxError."""
    from psycopg import sql

    place = await place_of(connection, table)
    identifier = sql.Identifier(*place)
    if not await _is_there(connection, "to_regclass", identifier.as_string(connection)):
        await connection.execute(sql.SQL(_REFUSED).format(table=identifier))
    await check_refused(connection, *place)
    return place


async def check_refused(connection: "AsyncConnection[Any]", schema: str, name: str) -> None:
    """Raises OutboxError if an untrusted owner could have made the table for what the target refuses."""
    statement = question("%s", "%s", reads=True, is_whole=False)
    found = stranger_of(await (await connection.execute(statement, [schema, table_named(name)])).fetchall())
    if found is not None:
        raise OutboxError(f"--refuse-to table:{schema}.{name}: {found.sentence}; or name another table")


async def one(connection: "AsyncConnection[Any]", statement: str, arguments: Sequence[object] = ()) -> Any:
    """Return the one row of a statement that always has one; None for one that may have none."""
    return await (await connection.execute(statement, arguments or None)).fetchone()
