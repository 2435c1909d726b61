"""The outbox in a real PostgreSQL: what a round deletes, who may produce, and what becomes of two tries at once."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from oncelog.broker.storage.shared.statements import Fenced, RoundsLost, RowsGone, Statements
from oncelog.broker.storage.shared.tables import (
    AppendRound,
    Failing,
    ListOutbox,
    LookAtOutbox,
    ReadRounds,
    RefuseRows,
    WaitingRows,
)
from tests.support.postgres.server import losing_what_is_out_of_line
from tests.unit.storage.stores import new_schema
from tests.unit.storage.test_postgres import _of, _statements, _take, _until

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_ALL = LookAtOutbox(1_000, 1_000_000, 1_000_000)


@asynccontextmanager
async def _connection(dsn: str, schema: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(dsn, server_settings={"search_path": f"{schema},pg_catalog"})
    try:
        yield connection
    finally:
        await connection.close()


async def _produce(connection: Any, *values: str) -> list[int]:
    """The ids of the rows."""
    for value in values:
        await connection.execute("select produce('topic', 'key', $1::text)", value)
    return [row_id for (row_id,) in await connection.fetch("select id from oncelog_outbox order by id")]


async def _waiting(statements: Statements) -> Sequence[bytes | None]:
    return [row.value for row in (await _of(statements.ask(_ALL))).rows]


async def _bodies(statements: Statements) -> list[bytes]:
    return [body for _, body, _ in await _of(statements.ask(ReadRounds(0)))]


async def test_a_round_is_written_and_its_rows_are_deleted_or_neither() -> None:
    """A broker that has lost the lease deletes nothing, either."""
    dsn, schema = new_schema()
    async with (
        _statements(dsn, schema) as sleeper,
        _statements(dsn, schema) as successor,
        _connection(dsn, schema) as sql,
    ):
        old = await _take(sleeper)
        one, two, three = await _produce(sql, "one", "two", "three")
        await _of(sleeper.append(AppendRound(old, 1, (b"first",), taken=(one, three))))
        assert await _waiting(sleeper) == [b"two"]
        new = await _take(successor)
        with pytest.raises(Fenced):
            await _of(sleeper.append(AppendRound(old, 2, (b"late",), taken=(two,))))
        assert await _waiting(successor) == [b"two"]
        await _of(successor.append(AppendRound(new, 2, (b"second",), taken=(two,))))
        assert await _waiting(successor) == []
        assert await _bodies(successor) == [b"first", b"second"]


async def test_a_round_with_rows_that_is_sent_again_is_written_once() -> None:
    """The second try waits for the rows that the first has locked, whose connection is gone."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as beside:
        epoch = await _take(statements)
        taken = tuple(await _produce(beside, "one", "two"))
        transaction = beside.transaction()
        await transaction.start()
        await beside.execute("select from oncelog_outbox for update")

        async def are_waiting(count: int) -> bool:
            return bool(await beside.fetchval("select count(*) from pg_locks where not granted") >= count)

        appended = statements.append(AppendRound(epoch, 1, (b"a", b"b"), taken=taken))
        await _until(lambda: are_waiting(1))
        statements._tables._rounds._connection.terminate()  # type: ignore[attr-defined]
        await _until(lambda: are_waiting(2))
        await transaction.rollback()
        await _of(appended)
        assert await _bodies(statements) == [b"ab"]
        assert await _waiting(statements) == []


async def test_a_row_that_another_session_has_deleted_ends_the_broker_and_is_not_taken_for_a_lost_round() -> None:
    """Its record has an offset by then. The rows that were to be deleted with it stay."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        epoch = await _take(statements)
        one, two = await _produce(sql, "one", "two")
        await sql.execute("delete from oncelog_outbox where id = $1", one)
        with pytest.raises(RowsGone):
            await _of(statements.append(AppendRound(epoch, 1, (b"first",), taken=(one, two))))
        assert await _waiting(statements) == [b"two"]
        assert await _bodies(statements) == []


async def test_a_database_that_lost_a_round_and_rows_with_it_is_noticed_as_one_that_lost_a_round() -> None:
    """Else the next start would give out again what clients have seen."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        epoch = await _take(statements)
        await _of(statements.append(AppendRound(epoch, 1, (b"first",))))
        (one,) = await _produce(sql, "one")
        await sql.execute("delete from oncelog_journal_0")
        await sql.execute("delete from oncelog_outbox")
        with pytest.raises(RoundsLost):
            await _of(statements.append(AppendRound(epoch, 2, (b"second",), taken=(one,))))


async def test_a_look_finds_rows_in_the_order_of_their_ids_within_its_limits() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        await _produce(sql, "a" * 10, "b" * 10, "c" * 10_000, "d")

        async def look(*limits: int) -> WaitingRows:
            return await _of(statements.ask(LookAtOutbox(*limits)))

        found = await look(2, 1_000_000, 1_000_000)
        assert [row.value for row in found.rows] == [b"a" * 10, b"b" * 10]
        assert [row.value for row in (await look(10, 1, 1_000_000)).rows] == [b"a" * 10], "one at least"
        assert [row.value for row in (await look(10, 14, 1_000_000)).rows] == [b"a" * 10, b"b" * 10]
        rows = (await look(10, 1_000_000, 1_000)).rows
        assert [(row.key, row.size_bytes) for row in rows] == [(b"key", 13), (b"key", 13), (None, 10_003), (b"key", 4)]
        await sql.execute("update oncelog_outbox set at = at - interval '1 hour' where id = 1")
        assert 3_600_000 <= (await look(1, 1, 1)).waited_ms < 3_700_000


async def test_a_refused_row_is_moved_with_its_reason_and_once() -> None:
    dsn, schema = new_schema()
    async with (
        _statements(dsn, schema) as statements,
        _statements(dsn, schema) as successor,
        _connection(dsn, schema) as sql,
    ):
        old = await _take(statements)
        one, two, _ = await _produce(sql, "one", "two", "three")
        refused = RefuseRows(old, ((one, "why"), (two, "why else")))
        for _ in range(2):
            await _of(statements.write(refused))
        found = "select id, convert_from(value, 'UTF8'), reason from oncelog_outbox_refused order by id"
        assert [tuple(row) for row in await sql.fetch(found)] == [(one, "one", "why"), (two, "two", "why else")]
        await _take(successor)
        with pytest.raises(Fenced):
            await _of(statements.write(RefuseRows(old, ((3, "late"),))))
        assert await _waiting(successor) == [b"three"]


async def test_a_row_whose_value_the_database_has_lost_is_moved_without_it_and_the_others_whole() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        epoch = await _take(statements)
        await sql.execute("alter table oncelog_outbox alter value set storage external")
        one, two = await _produce(sql, "x" * 10_000, "two")
        await sql.execute(losing_what_is_out_of_line("oncelog_outbox"))
        seen = await _of(statements.ask(_ALL))
        assert "for toast value" in seen.problem
        await _of(statements.write(RefuseRows(epoch, ((one, "why"), (two, "why else")))))
        found = "select id, key, value, reason from oncelog_outbox_refused order by id"
        (lost, whole) = [tuple(row) for row in await sql.fetch(found)]
        assert lost[:3] == (one, None, None) and lost[3].startswith("why; its key, value and headers are not kept, as ")
        assert whole == (two, b"key", b"two", "why else")
        assert await _waiting(statements) == []


async def test_a_row_that_its_table_does_not_take_is_said_to_fail_and_looks_pass_it_by_that_name_it() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        epoch = await _take(statements)
        await sql.execute("alter table oncelog_outbox_refused add check (reason <> 'why')")
        one, two = await _produce(sql, "one", "two")
        with pytest.raises(Failing, match="violates check constraint"):
            await _of(statements.write(RefuseRows(epoch, ((one, "why"), (two, "why else")))))
        assert await _waiting(statements) == [b"one", b"two"]
        assert await _of(statements.ask(ListOutbox(10, (one,)))) == [two]
        found = await _of(statements.ask(LookAtOutbox(1_000, 1_000_000, 1_000_000, left=(one,))))
        assert [row.value for row in found.rows] == [b"two"]


async def test_a_notification_comes_when_a_transaction_commits_also_over_a_new_connection() -> None:
    """A transaction that rolls back causes no notification."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        woken = asyncio.Event()
        statements._tables.watch_outbox(woken.set)  # type: ignore[attr-defined]
        await _waiting(statements)
        for _ in range(2):
            async with sql.transaction():
                await _produce(sql, "one")
            await woken.wait()
            statements._tables._outbox._connection.terminate()  # type: ignore[attr-defined]
            await _waiting(statements)  # it listens again from here on
            woken.clear()
        transaction = sql.transaction()
        await transaction.start()
        await _produce(sql, "never")
        await transaction.rollback()
        await sql.execute("notify oncelog_outbox")
        await woken.wait()
        assert len(await _waiting(statements)) == 2


async def test_who_may_produce_is_a_grant_and_gives_no_right_to_the_tables() -> None:
    dsn, schema = new_schema()
    role = f"shop_{schema}"
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as admin:
        await admin.execute(f"create role {role} login")
        await admin.execute(f"grant usage on schema {schema} to {role}")
        async with _connection(dsn.replace("postgres@", f"{role}@"), schema) as shop:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await _call(shop, schema)
            await admin.execute(f"grant execute on all functions in schema {schema} to {role}")
            await _call(shop, schema)
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await shop.execute(f"insert into {schema}.oncelog_outbox(topic) values('topic')")
            for wrong in ("'__consumer_offsets', 'k', 'v'", "'no topic', 'k', 'v'", "'t', 'k', 'v', '[1]'"):
                with pytest.raises(asyncpg.RaiseError, match=r"oncelog\.produce"):
                    await _call(shop, schema, wrong)
        async with _statements(dsn, schema):  # a later start leaves what was granted
            await _call(admin, schema)
        has_right = "select has_function_privilege($1, $2, 'execute')"
        assert await admin.fetchval(has_right, role, f"{schema}.produce(text, text, text, jsonb, integer)")
        assert await _waiting(statements) == [b"v", b"v"]
        await admin.execute(f"drop owned by {role}; drop role {role}")


async def _call(connection: Any, schema: str, arguments: str = "'topic', 'k', 'v'") -> None:
    await connection.execute(f"select {schema}.produce({arguments})")


async def test_headers_and_a_partition_come_as_they_were_given() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements, _connection(dsn, schema) as sql:
        await sql.execute("""select produce('topic', null::bytea, null, '{"a": 1.10, "b": null}', 7)""")
        (row,) = (await _of(statements.ask(_ALL))).rows
        assert (row.topic, row.partition, row.key, row.value) == ("topic", 7, None, None)
        assert row.headers == '[["a", "1.10"], ["b", null]]'


async def test_the_functions_of_a_relay_in_the_same_schema_stay_its_own_while_it_is_installed() -> None:
    """The rows of a relay's carrier are read by that relay alone."""
    dsn, schema = new_schema()
    async with _connection(dsn, "pg_catalog") as sql:
        await sql.execute(f"create schema {schema}; create table {schema}.relays(name text)")
        await sql.execute(f"insert into {schema}.relays values('a relay')")
        made = f"select to_regprocedure('{schema}.produce(text, text, text, jsonb, integer)') is not null"
        async with _statements(dsn, schema):
            assert not await sql.fetchval(made)
        await sql.execute(f"delete from {schema}.relays")
        async with _statements(dsn, schema):
            assert await sql.fetchval(made)
