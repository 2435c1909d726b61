"""The two halves of the journal in a real PostgreSQL: what a checkpoint covers goes at once, whichever other sessions
read it.
"""

from typing import Any

import pytest

from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import AppendRound, Checkpoint, FindRound, FoundRound, ReadRounds
from tests.unit.storage.stores import new_schema
from tests.unit.storage.test_postgres import _of as of
from tests.unit.storage.test_postgres import _statements as statements_over
from tests.unit.storage.test_postgres import _take as take

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")


async def _appended(statements: Statements, epoch: int, numbers: range, half: int) -> None:
    before = half if numbers[0] == 1 else 1 - half
    for number in numbers:
        await of(statements.append(AppendRound(epoch, number, (b"%d" % number,), half, before)))
        before = half


async def _rounds(statements: Statements) -> list[tuple[int, int]]:
    return [(number, half) for number, _, half in await of(statements.ask(ReadRounds(0)))]


async def _file_of(connection: Any, half: int) -> tuple[int, int]:
    """A table that is emptied at once has another; one whose rows are deleted keeps its own, and their space."""
    row = await connection.fetchrow("select relfilenode, pg_relation_size(oid) from pg_class where oid = $1::regclass",
                                    f"oncelog_journal_{half}")  # fmt: skip
    return row[0], row[1]


async def test_what_a_checkpoint_covers_goes_with_its_file_and_what_came_since_stays() -> None:
    dsn, schema = new_schema()
    async with statements_over(dsn, schema) as statements:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        epoch = await take(statements)
        await _appended(statements, epoch, range(1, 4), 0)
        await _appended(statements, epoch, range(4, 6), 1)
        before, _ = await _file_of(beside, 0)
        await of(statements.write(Checkpoint(epoch, 3, 1, [], [])))
        assert await _rounds(statements) == [(4, 1), (5, 1)]
        assert await of(statements.ask(FindRound(5))) == FoundRound(epoch, epoch)
        after, size_bytes = await _file_of(beside, 0)
        assert (after != before, size_bytes) == (True, 0)
        await beside.close()


async def test_a_checkpoint_deletes_rows_while_another_session_reads_the_table() -> None:
    """It does not wait for a dump or an export, which may take hours; the next one that can empties the table."""
    dsn, schema = new_schema()
    async with statements_over(dsn, schema) as statements:
        reader, beside = [await asyncpg.connect(dsn, server_settings={"search_path": schema}) for _ in range(2)]
        epoch = await take(statements)
        await _appended(statements, epoch, range(1, 4), 0)
        reading = reader.transaction()
        await reading.start()
        await reader.execute("lock table oncelog_journal_0, oncelog_journal_1 in access share mode")
        before, _ = await _file_of(beside, 0)
        await of(statements.write(Checkpoint(epoch, 3, 1, [], [])))
        assert await _rounds(statements) == []
        assert await reader.fetchval("select count(*) from oncelog_journal_0") == 0
        assert (await _file_of(beside, 0))[0] == before
        await reading.rollback()
        await _appended(statements, epoch, range(4, 6), 1)
        await of(statements.write(Checkpoint(epoch, 5, 0, [], [])))
        await _appended(statements, epoch, range(6, 8), 0)
        await of(statements.write(Checkpoint(epoch, 7, 1, [], [])))
        assert await _rounds(statements) == []
        assert await _file_of(beside, 0) != before
        assert [(await _file_of(beside, half))[1] for half in (0, 1)] == [0, 0]
        await reader.close()
        await beside.close()


async def test_a_half_that_has_a_later_round_is_not_emptied() -> None:
    """No mistake about the halves can lose a round that nothing else has."""
    dsn, schema = new_schema()
    async with statements_over(dsn, schema) as statements:
        epoch = await take(statements)
        await _appended(statements, epoch, range(1, 3), 0)
        await _appended(statements, epoch, range(3, 5), 1)
        await of(statements.write(Checkpoint(epoch, 3, 0, [], [])))
        assert await _rounds(statements) == [(4, 1)]
        await of(statements.write(Checkpoint(epoch, 4, 1, [], [])))
        assert await _rounds(statements) == []
