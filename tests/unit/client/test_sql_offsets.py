"""Offsets in a program's own transactions, over sqlite3, which is always there: what is committed together, what comes
again, what is an error. tests/property has the same in any order of events."""

import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.values.errors import ConfigError, InvalidState, NoOffsetForPartition
from oncelog.client.values.records import TopicPartition
from oncelog.sql_offsets import PositionMoved, SqlBatch, SqlOffsets
from oncelog.sql_offsets.table import Move
from tests.fakes.partitions_to_read import NothingToRead, Partition, PartitionsToRead
from tests.support.postgres.sql_instances import OTHER, PLACE, Database, Instance, write


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "results.db")


# --- the way it should go ---------------------------------------------------------------------------------------------


async def test_records_and_their_position_are_committed_together(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    batch = await instance.next()
    assert ([each.value for each in batch], batch.moves) == ([b"0", b"1"], {PLACE: Move(0, 2)})
    await instance.process(batch)
    assert (batch.committed, database.results(), database.offsets()) == (True, [b"0", b"1"], {PLACE: 2})
    await instance.process_all()
    assert (database.results(), database.offsets()) == ([b"0", b"1", b"2"], {PLACE: 3})


async def test_another_instance_continues_where_the_table_says(database: Database) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2")}
    first = Instance(database, logs)
    await first.process(await first.next())
    await Instance(database, logs).process_all()
    assert database.results() == [b"0", b"1", b"2"]


async def test_markers_and_aborted_records_are_no_gap(database: Database) -> None:
    log = Partition(None, b"1", None, None, b"4", None)
    instance = Instance(database, {PLACE: log}, max_records=1)
    await instance.process_all()
    assert (database.results(), database.offsets()) == ([b"1", b"4"], {PLACE: 6})
    log.values += [None, None, b"8", None]
    await Instance(database, {PLACE: log}).process_all()
    assert (database.results(), database.offsets()) == ([b"1", b"4", b"8"], {PLACE: 10})


async def test_a_batch_moves_partitions_on_whose_position_passed_markers_alone(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0"), OTHER: Partition(None, None)})
    await instance.process_all()
    assert database.offsets() == {PLACE: 1, OTHER: 2}


async def test_a_read_past_markers_does_not_break_the_next_compare(database: Database) -> None:
    log = Partition(b"0")
    instance = Instance(database, {PLACE: log})
    await instance.process(await instance.next())
    log.values += [None]
    with pytest.raises(NothingToRead):
        await instance.consumer.next_batch()
    log.values += [b"2"]
    batch = await instance.next()
    assert batch.moves == {PLACE: Move(1, 3)}
    await instance.process(batch)
    assert (batch.committed, database.results()) == (True, [b"0", b"2"])


@pytest.mark.parametrize(
    ("reset", "committed", "values"),
    [
        ("earliest", {}, [b"0", b"1", b"2", b"3"]),
        ("latest", {}, [b"3"]),
        ("earliest", {PLACE: 2}, [b"2", b"3"]),
        ("error", {PLACE: 1}, [b"1", b"2", b"3"]),
    ],
)
async def test_a_partition_that_the_table_does_not_have_starts_where_kafka_says(
    database: Database, reset: Any, committed: Mapping[TopicPartition, int], values: Sequence[bytes]
) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2")}
    first = Instance(database, logs, auto_offset_reset=reset, committed=committed)
    with suppress(NothingToRead):
        await first.next()  # and dies: the start was chosen nevertheless
    logs[PLACE].values.append(b"3")
    await Instance(database, logs, auto_offset_reset=reset).process_all()
    assert database.results() == values


async def test_without_any_start_nothing_is_read(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0")}, auto_offset_reset="error")
    with pytest.raises(NoOffsetForPartition, match=r"neither oncelog_offsets nor the group in Kafka .* events-0"):
        await instance.next()
    assert database.offsets() == {}


# --- what may happen --------------------------------------------------------------------------------------------------


async def test_of_two_instances_with_the_same_records_one_writes_them_and_both_continue(database: Database) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2", b"3")}
    fast, slow = Instance(database, logs), Instance(database, logs)
    mine, theirs = await fast.next(), await slow.next()
    assert list(mine) == list(theirs)
    await fast.process(mine)
    await slow.process(theirs)
    assert (mine.committed, theirs.committed) == (True, False)
    assert isinstance(theirs.error, PositionMoved)
    assert database.results() == [b"0", b"1"]
    await slow.process_all()
    await fast.process_all()
    assert database.results() == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("is_advanced", [True, False])
async def test_what_is_rolled_back_comes_again(database: Database, is_advanced: bool) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    batch = await instance.next()
    with database() as connection, pytest.raises(ZeroDivisionError):
        async with batch:
            with connection:
                if is_advanced:
                    await batch.advance(connection)
                write(connection, batch)
                raise ZeroDivisionError
    assert (batch.committed, database.results(), database.offsets()) == (False, [], {PLACE: 0})
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2"]


async def test_a_transaction_that_is_rolled_back_in_silence_comes_again(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    batch = await instance.next()
    with database() as connection:
        async with batch:
            await batch.advance(connection)
            write(connection, batch)
            connection.rollback()
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2"]


async def test_a_commit_whose_outcome_is_not_known_is_looked_up(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    batch = await instance.next()
    with database() as connection, pytest.raises(ConnectionResetError):
        async with batch:
            with connection:
                await batch.advance(connection)
                write(connection, batch)
            raise ConnectionResetError
    assert not batch.committed
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2"]


async def test_a_transaction_may_be_tried_again_in_the_block_of_its_batch(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    batch = await instance.next()
    with database() as connection:
        async with batch:
            for attempt in range(2):
                with suppress(ZeroDivisionError), connection:
                    await batch.advance(connection)
                    write(connection, batch)
                    if attempt == 0:
                        raise ZeroDivisionError
    assert (batch.committed, database.results()) == (True, [b"0", b"1"])


@pytest.mark.parametrize("calls_hook", [True, False], ids=["by the group", "by the program"])
async def test_a_partition_that_comes_back_is_read_from_the_table(database: Database, calls_hook: bool) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2", b"3"), OTHER: Partition(b"a", b"b", b"c")}
    instance, other = Instance(database, logs, max_records=1), Instance(database, logs)
    await instance.process(await instance.next())
    instance.consumer.assign([OTHER], calls_hook=calls_hook)
    await instance.process(await instance.next())
    other.consumer.assign([PLACE])
    await other.process_all()
    logs[PLACE].values += [b"4"]
    instance.consumer.assign([PLACE, OTHER], calls_hook=calls_hook)
    batch = await instance.next()
    assert [each.value for each in batch] == [b"4"]


async def test_a_partition_that_the_program_assigns_is_read_from_the_table(database: Database) -> None:
    """No hook is called for it."""
    instance = Instance(database, {PLACE: Partition(b"0", b"1")})
    instance.consumer.assign([])
    instance.consumer.assign([PLACE], calls_hook=False)
    await instance.process_all()
    assert database.results() == [b"0", b"1"]


# --- what is an error -------------------------------------------------------------------------------------------------


async def follow_the_hint(database: Database, error: NoOffsetForPartition) -> None:
    with database() as connection, connection:
        connection.execute(error.hint[error.hint.index("update ") :])


@pytest.mark.parametrize("is_running", [True, False])
async def test_records_that_were_deleted_before_they_were_processed_are_an_error(
    database: Database, is_running: bool
) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2", b"3")}
    instance = Instance(database, logs, max_records=1)
    await instance.process(await instance.next())
    logs[PLACE].delete_before(3)
    if not is_running:
        instance = Instance(database, logs)
    for _ in range(2):
        with pytest.raises(
            NoOffsetForPartition, match=r"events-0: offsets 1 to 2 were deleted before .* processed"
        ) as raised:
            await instance.next()
    await follow_the_hint(database, raised.value)
    await instance.process_all()
    assert database.results() == [b"0", b"3"]


@pytest.mark.parametrize("is_running", [True, False])
async def test_a_log_that_ends_before_the_tables_position_is_an_error(database: Database, is_running: bool) -> None:
    logs = {PLACE: Partition(b"0", b"1", b"2")}
    instance = Instance(database, logs)
    await instance.process_all()
    logs[PLACE].values = [b"new"]
    if not is_running:
        instance = Instance(database, logs)
    with pytest.raises(NoOffsetForPartition, match="processed it up to 3, and the log ends at 1") as raised:
        await instance.next()
    await follow_the_hint(database, raised.value)
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2", b"new"]


async def test_a_batch_at_which_the_loop_was_left_comes_again(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    await instance.next()
    instance.start_over()
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2"]


async def test_a_batch_that_was_not_entered_is_an_error_and_comes_again(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1")})
    await instance.next()
    with pytest.raises(InvalidState, match="the last batch's block was not left"):
        await instance.next()
    await instance.process_all()
    assert database.results() == [b"0", b"1"]


async def test_a_block_without_advance_is_an_error(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0")})
    with pytest.raises(InvalidState, match=r"ended without advance\(\)"):
        async with await instance.next():
            pass


async def test_a_batch_is_advanced_in_its_block_alone(database: Database) -> None:
    batch = await Instance(database, {PLACE: Partition(b"0")}).next()
    with database() as connection:
        with pytest.raises(InvalidState, match="the batch's block is not open"):
            await batch.advance(connection)
        async with batch:
            await batch.advance(connection)
        with pytest.raises(InvalidState, match="the batch's block is not open"):
            await batch.advance(connection)
        with pytest.raises(InvalidState, match="only once"):
            await batch.__aenter__()


async def test_a_consumer_that_was_moved_back_is_an_error_and_processes_nothing_twice(database: Database) -> None:
    instance = Instance(database, {PLACE: Partition(b"0", b"1", b"2")})
    await instance.process(await instance.next())
    instance.consumer.seek(PLACE, 0)
    with pytest.raises(InvalidState, match="not where its offsets have moved it"):
        await instance.next()
    await instance.process_all()
    assert database.results() == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    "options",
    [
        {"isolation_level": None},
        pytest.param({"autocommit": True}, marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12")),
    ],
    ids=repr,
)
async def test_a_connection_that_commits_each_statement_is_refused_outside_a_transaction(
    database: Database, options: Mapping[str, Any]
) -> None:
    connection = sqlite3.connect(":memory:", **options)
    offsets = SqlOffsets("g", database)
    with closing(connection):
        connection.execute(offsets.ddl)
        connection.execute("insert into oncelog_offsets values ('g', 'events', 0, 0)")
        instance = Instance(database, {PLACE: Partition(b"0")})
        with pytest.raises(InvalidState, match=r"commits each statement by itself.*begin"):
            async with await instance.next() as batch:
                await batch.advance(connection)
        connection.execute("begin")
        async with await instance.next() as batch:
            await batch.advance(connection)
            connection.execute("commit")
        assert connection.execute("select next_offset from oncelog_offsets").fetchall() == [(1,)]


@pytest.mark.parametrize("connection", [None, "dsn", Path()], ids=repr)
async def test_any_other_connection_is_refused_with_those_that_work(database: Database, connection: object) -> None:
    instance = Instance(database, {PLACE: Partition(b"0")})
    with pytest.raises(ConfigError, match=r"not kept by a .*asyncpg, psycopg 3 or sqlite3, .*SQLAlchemy 2"):
        async with await instance.next() as batch:
            await batch.advance(connection)


async def test_a_connection_may_be_of_a_class_of_ones_own_with_rows_of_ones_own(database: Database) -> None:
    class Own(sqlite3.Connection):
        pass

    def connect() -> AbstractContextManager[sqlite3.Connection]:
        connection = sqlite3.connect(database.path, factory=Own)
        connection.row_factory = lambda cursor, row: {"row": row}
        return closing(connection)

    instance = Instance(database, {PLACE: Partition(b"0")})
    instance.offsets._connect = connect
    batch = await instance.next()
    with connect() as connection:
        async with batch:
            with connection:
                await batch.advance(connection)
    assert database.offsets() == {PLACE: 1}


@pytest.mark.parametrize(
    ("connect", "match"),
    [
        (lambda: 7, "context manager of a connection, not a int"),
        (lambda: nullcontext("dsn"), r"not kept by a builtins\.str"),
    ],
)
async def test_what_connect_returns_must_be_a_connection(connect: Callable[[], object], match: str) -> None:
    offsets = SqlOffsets("g", connect)
    consumer = PartitionsToRead({PLACE: Partition()}, offsets.options)
    consumer.assign([PLACE])
    with pytest.raises(ConfigError, match=match):
        await anext(offsets.batches(consumer))  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "options",
    [{"auto_offset_reset": "earliest"}, {"enable_auto_commit": True}, {"commit_before_return": True}],
    ids=repr,
)
def test_a_consumer_with_a_mind_of_its_own_is_refused(database: Database, options: Mapping[str, Any]) -> None:
    offsets = SqlOffsets("g", database)
    with pytest.raises(ConfigError, match=r"Consumer\(..., \*\*offsets.options\)"):
        offsets.batches(PartitionsToRead({}, {**offsets.options, **options}))  # type: ignore[call-overload]


@pytest.mark.parametrize("awaits_theirs", [True, False])
async def test_an_on_assign_of_ones_own_awaits_that_of_the_offsets(database: Database, awaits_theirs: bool) -> None:
    offsets = SqlOffsets("g", database)

    async def on_assign(partitions: Sequence[TopicPartition]) -> None:
        if awaits_theirs:
            await offsets.on_assign(partitions)

    consumer = PartitionsToRead({PLACE: Partition(b"0")}, {**offsets.options, "on_assign": on_assign}, {PLACE: 0})
    consumer.assign([PLACE])
    batches: AsyncIterator[SqlBatch] = offsets.batches(consumer)  # type: ignore[call-overload]
    if awaits_theirs:
        assert (await anext(batches))[0].value == b"0"
    else:
        with pytest.raises(InvalidState, match="an on_assign of your own awaits that of the offsets"):
            await anext(batches)


async def test_a_consumer_must_be_read_by_its_offsets(database: Database) -> None:
    consumer = PartitionsToRead({PLACE: Partition(b"0")}, SqlOffsets("g", database).options)
    consumer.assign([PLACE])
    with pytest.raises(InvalidState, match=r"offsets\.batches"):
        await consumer.next_batch()


def test_wrong_arguments_are_refused_at_once(database: Database) -> None:
    with pytest.raises(ConfigError, match="name of a table"):
        SqlOffsets("g", database, table="offsets; drop table results")
    with pytest.raises(ConfigError, match="auto_offset_reset='first'"):
        SqlOffsets("g", database, auto_offset_reset="first")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="connect must be callable"):
        SqlOffsets("g", database())  # type: ignore[arg-type]


async def test_the_table_is_made_once_and_groups_share_it(database: Database) -> None:
    logs = {PLACE: Partition(b"0", b"1")}
    for group in ("g", "it's another"):
        offsets = SqlOffsets(group, database, table="positions")
        await offsets.create()
        await offsets.create()
        consumer = PartitionsToRead(logs, offsets.options)
        consumer.assign(logs)
        async with await anext(offsets.batches(consumer)) as batch:  # type: ignore[call-overload]
            with database() as connection, connection:
                await batch.advance(connection)
    with database() as connection:
        rows = connection.execute("select * from positions order by group_id").fetchall()
    assert rows == [("g", "events", 0, 2), ("it's another", "events", 0, 2)]
