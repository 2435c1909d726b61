"""A PostgreSQL without space: what it refuses has not happened, and happens when there is some again."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.log.log_config import LogConfig
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.log.rounds import Rounds
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.store import SharedSizes, open_store
from oncelog.broker.storage.shared.tables import AppendRound, Refused
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.turns.slices import Slices
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.fakes.logs import TOPIC_ID, Listener, batch
from tests.unit.storage.stores import new_schema
from tests.unit.storage.test_postgres import _of as of
from tests.unit.storage.test_postgres import _statements as statements_over
from tests.unit.storage.test_postgres import _take as take

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_FILL = """
create function fill() returns trigger language plpgsql as $$ begin
  raise exception 'could not extend file: No space left on device' using errcode = 'disk_full';
end $$;
create trigger full_disk before insert on {0} execute function fill();
"""
_MAKE_SPACE = "drop trigger full_disk on {0}; drop function fill()"


async def _until(look: Callable[[], bool]) -> None:
    while not look():
        await asyncio.sleep(0)


async def test_a_refused_round_has_not_happened_and_its_connection_is_as_good_as_before() -> None:
    dsn, schema = new_schema()
    async with statements_over(dsn, schema) as statements:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        epoch = await take(statements)
        row = AppendRound(epoch, 1, (b"one",))
        await beside.execute(_FILL.format("oncelog_journal_0"))
        with pytest.raises(Refused, match="No space left"):
            await of(statements.append(row))
        connection: Any = statements._tables._rounds._connection  # type: ignore[attr-defined]
        await beside.execute(_MAKE_SPACE.format("oncelog_journal_0"))
        await of(statements.append(row))
        assert connection is statements._tables._rounds._connection  # type: ignore[attr-defined]
        assert await beside.fetchval("select count(*) from oncelog_journal") == 1
        await beside.close()


@pytest.mark.parametrize("table", ["oncelog_journal_0", "oncelog_chunk"])
async def test_a_store_works_again_once_there_is_space(table: str) -> None:
    """A round or a checkpoint is refused: appends fail, nothing that was acknowledged is lost, and nothing has
    failed."""
    dsn, schema = new_schema()
    async with statements_over(dsn, schema) as statements:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        failures: list[OSError] = []
        scheduler, clock = statements._scheduler, SystemClock()
        slices = Slices(scheduler)

        async def opened(name: str) -> LogManager:
            terms = LeaseTerms(name, node_id=1)  # the next start takes it at once
            store = await of(
                slices.run_own(
                    open_store(
                        statements._tables,
                        clock,
                        scheduler,
                        failures.append,
                        None,
                        SharedSizes(checkpoint_bytes=1),
                        terms,
                    )
                )
            )
            return LogManager(store, Rounds(scheduler, store), Listener(), clock)

        manager = await opened("first")
        log = await of(slices.run_own(manager.open("topic", 0, TOPIC_ID, LogConfig())))
        manager.begin_serving()
        await beside.execute(_FILL.format(table))
        log.append(batch(value=b"first"), wall_ms=clock.wall_ms())
        await _until(lambda: manager.store.trouble is not None)
        assert manager.store.trouble is not None
        assert not manager.store.trouble.is_final
        with pytest.raises(KafkaError) as refused:
            log.append(batch(value=b"second"), wall_ms=clock.wall_ms())
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        await beside.execute(_MAKE_SPACE.format(table))
        await _until(lambda: manager.store.trouble is None)
        log.append(batch(value=b"third"), wall_ms=clock.wall_ms())
        await of(log.when_durable(2))
        await _until(lambda: not manager.store.is_busy)
        assert manager.close() is None
        again = await opened("second")
        assert (await of(slices.run_own(again.open("topic", 0, TOPIC_ID, LogConfig())))).log_end_offset == 2
        assert not failures
        again.close()
        await beside.close()
