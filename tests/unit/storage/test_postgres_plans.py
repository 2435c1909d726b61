"""What PostgreSQL plans for the statements that are sent again and again, on tables that were never analyzed.

Tables are new after the first start, after the restore of a dump and after pg_upgrade, and stay unanalyzed for minutes,
or for ever without autovacuum. PostgreSQL takes one that is empty for a thousand rows: two of those without a condition
are a million, and the plan is compiled at each look.
"""

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    AppendRound,
    AttendLease,
    FetchChunk,
    FindRound,
    FollowMetadata,
    KeepNode,
    Lease,
    LookAtLease,
    LookAtNodes,
    LookAtOutbox,
    NodeRow,
    RefuseRows,
    RenewLease,
    Statement,
    TakeLease,
)
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from tests.support.postgres.server import Postgres, open_directory, programs_by_version, reachable_programs

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_SEEN = Lease(0, "", 0, 0, is_attended=False)
OFTEN: list[Statement[Any]] = [
    LookAtLease(),
    TakeLease(_SEEN, "a start", 10_000, LOST_EPOCHS, 1),
    RenewLease(1, 10_000),
    AttendLease(1),
    KeepNode(NodeRow(1, "a start", ()), 10_000),
    LookAtNodes(),
    FollowMetadata(1, 1),
    AppendRound(1, 1, (b"a", b"b")),
    AppendRound(1, 2, (b"a", b"b"), half=1, taken=(1, 2)),
    FindRound(1),
    FetchChunk(1),
    LookAtOutbox(1_000, 1_000_000, 1_000_000),
    RefuseRows(1, ((1, "a reason"),)),
]
"""The statements that are sent more than once a second, and those that a take-over waits for."""
_MOST = 2_000
"""The limit on a plan's cost; PostgreSQL compiles from 100,000 on (`jit_above_cost`)."""
_MANY_LOGS = """
insert into oncelog_log select gen_random_uuid(), 0, 'topic', 1, '{}', '', '' from generate_series(1, 10000);
insert into oncelog_start select topic_id, 0, 0 from oncelog_log;
insert into oncelog_chunk
  select row_number() over (), topic_id, 0, 0, 0, 1, 0, 0, 0, '', '{}', 1, 'x' from oncelog_log
"""
_UNANALYZED = """
do $$ declare name text; begin
  for name in select relname from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'r' loop
    execute format('alter table %I set (autovacuum_enabled = false)', name);
  end loop;
end $$
"""


@pytest.fixture(scope="module", params=sorted(programs_by_version()))
def server(request: pytest.FixtureRequest) -> Iterator[Postgres]:
    with open_directory() as directory:
        programs = reachable_programs(programs_by_version()[request.param], directory)
        running = Postgres(directory / "data", programs, {"autovacuum": "off"})
        try:
            yield running
        finally:
            running.stop("immediate")


async def _prepared(dsn: str, schema: str) -> "asyncpg.Connection":
    from oncelog.broker.storage.postgres.preparing import prepare
    from oncelog.broker.storage.postgres.session import Server

    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    reached = Server(dsn, schema, LoopCoroutines(), scheduler)
    await prepare(reached, may_lose=False)
    scheduler.close()
    return await reached.connect()


async def _costs(connection: "asyncpg.Connection", statement: Statement[Any]) -> dict[str, float]:
    """The cost of each statement in SQL, by the plan that it has there."""
    from oncelog.broker.storage.postgres.tables import _asked, _Progress

    sent: list[tuple[str, tuple[Any, ...]]] = []
    with connection.query_logger(lambda record: sent.append((record.query, tuple(record.args or ())))):
        await _asked(statement, _Progress())(connection)
    await asyncio.sleep(0)  # the driver calls its loggers in a turn of their own
    costs: dict[str, float] = {}
    for query, arguments in sent:
        is_of_driver = "typeinfo_tree" in query  # about types, once on each connection
        if query.split()[0].lower() in ("select", "insert", "update", "delete", "with") and not is_of_driver:
            plan = json.loads(await connection.fetchval(f"explain (format json) {query}", *arguments))
            costs[query] = plan[0]["Plan"]["Total Cost"]
    return costs


@pytest.mark.parametrize("log_count", [0, 10_000])
async def test_what_is_sent_often_is_cheap_on_tables_that_were_never_analyzed(server: Postgres, log_count: int) -> None:
    connection = await _prepared(server.dsn, f"plans_{log_count}")
    await connection.execute(_UNANALYZED)
    if log_count:
        await connection.execute(_MANY_LOGS)
    await connection.execute("set jit = on")
    costs: dict[str, float] = {}
    for statement in OFTEN:
        found = await _costs(connection, statement)
        assert found, f"nothing was sent for {statement}"
        costs |= found
    assert await connection.fetchval("select count(*) from pg_stat_user_tables where last_analyze is not null") == 0
    await connection.close()
    assert {query: cost for query, cost in costs.items() if cost > _MOST} == {}


async def test_nothing_is_compiled(server: Postgres) -> None:
    """Compiling takes longer than what our statements do, whatever the planner takes a table for."""
    connection = await _prepared(server.dsn, "compiled")
    assert await connection.fetchval("show jit") == "off"
    await connection.close()


async def test_a_look_beside_a_checkpoint_misses_nothing_that_it_moves(server: Postgres) -> None:
    """A snapshot that is older than the lock on the journal would have the rows of before in no table."""
    from oncelog.broker.storage.postgres import nodes, tables
    from oncelog.broker.storage.shared.tables import Checkpoint, ChunkRow, Followed, NewChunk
    from oncelog.protocol.topics import METADATA_TOPIC_ID

    leader = await _prepared(server.dsn, "beside")
    standby, watcher = await _prepared(server.dsn, "beside"), await _prepared(server.dsn, "beside")
    for number in (1, 2):
        await leader.execute(
            "insert into oncelog_journal_0(number, part, epoch, body, is_followed) values($1, 1, 0, $2, true)",
            *(number, b"round %d" % number),
        )
    chunk = ChunkRow((UUID(bytes=METADATA_TOPIC_ID.bytes), 0), 1, 0, 0, 2, 7, 0, 0, 0, b"", ())
    checkpoint = Checkpoint(0, 2, 1, (), (NewChunk(chunk, b"the chunk"),))
    moving = leader.transaction()
    await moving.start()
    await tables._add_new_chunks(leader, checkpoint)
    await tables._checkpoint(leader, checkpoint)
    looking = asyncio.ensure_future(nodes._follow_metadata(standby, FollowMetadata(0, 0)))
    while not await watcher.fetchval("select exists (select from pg_locks where not granted)"):
        await asyncio.sleep(0)
    await moving.commit()
    assert await looking == Followed(2, 0, [b"the chunk"], [])
    for connection in (leader, standby, watcher):
        await connection.close()
