"""The schema in a real PostgreSQL: made once, upgraded in numbered steps, and never taken back."""

import asyncio

import pytest

from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from tests.unit.storage.stores import new_schema

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")


async def test_an_older_schema_is_upgraded_step_by_step_and_an_older_release_then_refuses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from oncelog.broker.storage.postgres import preparing
    from oncelog.broker.storage.postgres.schema import VERSIONS
    from oncelog.broker.storage.postgres.session import Server

    dsn, schema = new_schema()
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    server = Server(dsn, schema, LoopCoroutines(), scheduler)
    await preparing.prepare(server, may_lose=False)
    later = ("create table first(number int)", "insert into first values(1)", "alter table first add other int")
    for known in (2, 4):
        monkeypatch.setattr(preparing, "VERSIONS", (*VERSIONS, *later)[: len(VERSIONS) + known - 1])
        await preparing.prepare(server, may_lose=False)
    connection = await asyncpg.connect(dsn, server_settings={"search_path": schema})
    assert [tuple(row) for row in await connection.fetch("select * from first")] == [(1, None)]
    found = [row[0] for row in await connection.fetch("select version from oncelog_schema order by version")]
    assert found == list(range(1, len(VERSIONS) + 4))
    await connection.close()
    monkeypatch.setattr(preparing, "VERSIONS", VERSIONS)
    with pytest.raises(preparing.Unusable, match=f"has version {len(VERSIONS) + 3}"):
        await preparing.prepare(server, may_lose=False)
    scheduler.close()


async def test_two_that_start_at_once_make_it_once() -> None:
    from oncelog.broker.storage.postgres.preparing import prepare
    from oncelog.broker.storage.postgres.session import Server

    dsn, schema = new_schema()
    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    server = Server(dsn, schema, LoopCoroutines(), scheduler)
    found = await asyncio.gather(*(prepare(server, may_lose=False) for _ in range(5)))
    assert len({each.database for each in found}) == 1
    scheduler.close()
