"""What our sessions have asked for is what is there, or they are not used."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import AppendRound, LookAtLease
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from tests.unit.storage.stores import new_schema
from tests.unit.storage.test_postgres import _of, _take

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
import asyncpg

from oncelog.broker.storage.postgres.asked import NotAsAsked, check_name, quoted
from oncelog.broker.storage.postgres.preparing import Unusable, prepare
from oncelog.broker.storage.postgres.session import Server
from oncelog.broker.storage.postgres.tables import PostgresTables

pytestmark = pytest.mark.postgres

Reach = Callable[[str, str], Server]


@pytest.fixture
async def reach() -> AsyncIterator[Reach]:
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    yield lambda dsn, schema: Server(dsn, schema, LoopCoroutines(), scheduler)
    scheduler.close()


def _as_behind_a_pooler_that_ignores(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Drop these settings at connect, as PgBouncer does with ignore_startup_parameters."""
    connect = asyncpg.connect

    def ignoring(*arguments: Any, server_settings: dict[str, str], **others: Any) -> Any:
        kept = {name: value for name, value in server_settings.items() if name not in names}
        return connect(*arguments, server_settings=kept, **others)

    patch.setattr(asyncpg, "connect", ignoring)


async def test_a_schema_that_was_not_got_is_refused(reach: Reach, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the tables of two clusters would be the same ones, in public."""
    dsn, schema = new_schema()
    _as_behind_a_pooler_that_ignores(monkeypatch, "search_path")
    with pytest.raises(Unusable, match=r"current_schema is 'public'.*ignore_startup_parameters"):
        await prepare(reach(dsn, schema), may_lose=False)
    monkeypatch.undo()
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval(
        "select count(*) from pg_tables where tablename like 'oncelog%'"
    ) == await connection.fetchval(
        "select count(*) from pg_tables where tablename like 'oncelog%' and schemaname <> 'public'"
    )
    await connection.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("statement_timeout", "1h"),
        ("lock_timeout", "1h"),
        ("default_transaction_isolation", "serializable"),
        ("idle_in_transaction_session_timeout", "1h"),
    ],
)
async def test_a_setting_that_was_not_got_is_refused(
    reach: Reach, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    dsn, schema = new_schema()
    role = f"other_{schema}"
    administrator = await asyncpg.connect(dsn)
    await administrator.execute(f"create role {role} login")
    await administrator.execute(f"create schema {schema} authorization {role}")
    await administrator.execute(f"alter role {role} set {name} = '{value}'")
    of_role = dsn.replace("postgres@", f"{role}@")
    await prepare(reach(of_role, schema), may_lose=False)  # what a role has set does not reach us
    _as_behind_a_pooler_that_ignores(monkeypatch, name)
    with pytest.raises(Unusable, match=f"{name} is '{value}'"):
        await prepare(reach(of_role, schema), may_lose=False)
    await administrator.close()


async def test_no_limit_of_time_is_inherited(reach: Reach) -> None:
    """Limits of newer versions are reset too; they cannot be sent to an older one as a connection begins."""
    dsn, schema = new_schema()
    role = f"limited_{schema}"
    administrator = await asyncpg.connect(dsn)
    await administrator.execute(f"create role {role} login")
    found = await administrator.fetch("select name from pg_settings where name ~ '_timeout$' and context = 'user'")
    names = {name for (name,) in found} - {"tcp_user_timeout", "wal_sender_timeout"}
    assert {"statement_timeout", "lock_timeout"} < names
    for name in names:
        await administrator.execute(f"alter role {role} set {name} = '1h'")
    connection = await reach(dsn.replace("postgres@", f"{role}@"), schema).connect()
    left = {name: await connection.fetchval("select current_setting($1)", name) for name in names}
    assert {name: value for name, value in left.items() if value != "0"} == {
        "idle_in_transaction_session_timeout": "15s"
    }
    await connection.close()
    await administrator.close()


@pytest.mark.parametrize(
    ("name", "is_taken"), [("s" * 63, True), ("s" * 64, False), ("ä" * 31, True), ("ä" * 32, False)]
)
def test_a_name_whose_end_would_be_cut_off_is_refused(name: str, is_taken: bool) -> None:
    """The limit is in bytes: the names of two clusters could begin with the same 63."""
    if is_taken:
        check_name(name)
    else:
        with pytest.raises(NotAsAsked, match="at most 63"):
            check_name(name)


async def test_a_start_refuses_a_name_that_is_too_long(reach: Reach) -> None:
    dsn, _ = new_schema()
    with pytest.raises(Unusable, match="64 bytes"):
        await prepare(reach(dsn, "ä" * 32), may_lose=False)


@pytest.mark.parametrize("may_lose", [False, True])
async def test_nothing_is_acknowledged_once_a_crash_may_take_it(reach: Reach, *, may_lose: bool) -> None:
    """A reload changes what commits wait for under a broker that runs, and its next round says so, as a start would."""
    dsn, schema = new_schema()
    server = reach(dsn, schema)
    await prepare(server, may_lose=may_lose)
    tables = PostgresTables(server, may_lose=may_lose)
    statements = Statements(tables, server.scheduler, SystemClock())
    epoch = await _take(statements)
    await _of(statements.append(AppendRound(epoch, 1, (b"kept",))))
    administrator = await asyncpg.connect(dsn)
    await administrator.execute("alter system set synchronous_commit = off")
    try:
        await administrator.execute("select pg_reload_conf()")
        while await administrator.fetchval("show synchronous_commit") != "off":
            await asyncio.sleep(0)
        number, refused = 2, None
        while refused is None and number < 1_000:  # another backend may read its settings later
            refused = (await _ended(statements, AppendRound(epoch, number, (b"x",)))).error
            if may_lose:
                break
            number += 1
        if may_lose:
            assert refused is None
        else:
            assert "may lose what was acknowledged last (synchronous_commit=off)" in str(refused)
            assert "oncelog.postgres.allow.loss" in str(refused)
    finally:
        await administrator.execute("alter system reset synchronous_commit")
        await administrator.execute("select pg_reload_conf()")
        await administrator.close()
    assert (await _of(statements.ask(LookAtLease()))).epoch == epoch
    await tables.close()


async def _ended(statements: Statements, row: AppendRound) -> Any:
    appending = statements.append(row)
    done = asyncio.get_running_loop().create_future()
    appending.then(done.set_result)
    return await done


def test_a_name_with_quotation_marks_stays_a_name() -> None:
    assert quoted('a"b') == '"a""b"'
