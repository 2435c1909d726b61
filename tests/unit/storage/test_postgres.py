"""What only a real PostgreSQL can show: connections that end in the middle, and who may write after a take-over."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar
from urllib.parse import urlsplit, urlunsplit

import pytest

from oncelog.broker.storage.shared.statements import Fenced, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import (
    LOST_EPOCHS,
    NO_NODE,
    AppendRound,
    Attendance,
    AttendLease,
    DropNode,
    FindRound,
    FoundRound,
    GiveBackLease,
    KeepNode,
    KeepPlace,
    LookAtLease,
    LookAtNodes,
    NewerTables,
    NodeAddress,
    NodeRow,
    ReadRounds,
    RenewLease,
    TakeLease,
    TakenLease,
    Unanswered,
    WriteBlob,
)
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from oncelog.broker.turns.completion import Completion
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import open_directory, started
from tests.support.processes.silent_proxy import SilentProxy
from tests.unit.storage.stores import new_schema

pytestmark = pytest.mark.postgres

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
T = TypeVar("T")


async def _of(completion: Completion[T]) -> T:
    done = asyncio.get_running_loop().create_future()
    completion.then(done.set_result)
    await done
    return completion.result()


async def _take(statements: Statements, jump: int = LOST_EPOCHS) -> int:
    return (await _taken(statements, jump)).epoch


async def _taken(statements: Statements, jump: int = LOST_EPOCHS) -> TakenLease:
    seen = await _of(statements.ask(LookAtLease()))
    taken = await _of(statements.ask(TakeLease(seen, f"start {seen.epoch}", 10_000, jump)))
    assert taken is not None
    return taken


@asynccontextmanager
async def _statements(dsn: str, schema: str) -> AsyncIterator[Statements]:
    from oncelog.broker.storage.postgres.preparing import prepare
    from oncelog.broker.storage.postgres.session import Server
    from oncelog.broker.storage.postgres.tables import PostgresTables

    scheduler = LoopScheduler(asyncio.get_running_loop(), "postgres")
    server = Server(dsn, schema, LoopCoroutines(), scheduler)
    await prepare(server, may_lose=False)
    tables = PostgresTables(server)
    yield Statements(tables, scheduler, SystemClock())
    scheduler.close()
    await tables.close()


async def test_rounds_are_there_once_and_in_order_though_connections_are_cut() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        epoch = await _take(statements)
        cutter = await asyncpg.connect(dsn)
        cut_count = 0
        for number in range(1, 101):
            appended = statements.append(AppendRound(epoch, number, (b"a%d" % number, b"b" * 1000)))
            if number % 5 == 0:
                cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'oncelog'"
                cut_count += await cutter.fetchval(cut)
            await _of(appended)
        assert cut_count >= 20
        await cutter.close()
        found: list[bytes] = []
        while rounds := await _of(statements.ask(ReadRounds(len(found)))):
            assert [number for number, _, _ in rounds] == list(range(len(found) + 1, len(found) + 1 + len(rounds)))
            found += [body for _, body, _ in rounds]
    assert found == [b"a%d" % number + b"b" * 1000 for number in range(1, 101)]


async def test_a_broker_that_has_lost_the_lease_adds_nothing() -> None:
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as sleeper, _statements(dsn, schema) as successor:
        old = await _take(sleeper)
        await _of(sleeper.append(AppendRound(old, 1, (b"one",))))
        new = await _take(successor)
        assert new == old + 1
        with pytest.raises(Fenced):
            await _of(sleeper.append(AppendRound(old, 2, (b"late",))))
        await _of(successor.append(AppendRound(new, 2, (b"two",))))
        with pytest.raises(Fenced):
            await _of(sleeper.append(AppendRound(old, 2, (b"late",))))
        assert await _of(successor.ask(FindRound(2))) == FoundRound(new, new)


async def test_a_node_is_known_at_its_address_from_before_it_ends_until_it_listens_again() -> None:
    """Clients would forget one that is not named for a moment, and wait for it in vain."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        address = NodeAddress("PLAINTEXT", "here", 9_092)

        async def seen() -> tuple[str, Sequence[NodeAddress], int, bool]:
            ((_, owner, addresses, followed, is_over, left_ms),) = (await _of(statements.ask(LookAtNodes()))).nodes
            assert is_over == (left_ms <= 0)
            assert left_ms <= 10_000
            return owner, addresses, followed, is_over

        await _of(statements.ask(KeepNode(NodeRow(2, "first", ()), 10_000)))
        assert await seen() == ("first", (), NO_NODE, False)
        await _of(statements.ask(KeepNode(NodeRow(2, "first", (address,), 7), 10_000)))
        assert await seen() == ("first", (address,), 7, False)
        await _of(statements.ask(DropNode(2, "another")))
        assert await seen() == ("first", (address,), 7, False)
        await _of(statements.ask(DropNode(2, "first")))
        assert await seen() == ("first", (address,), NO_NODE, True)
        await _of(statements.ask(KeepNode(NodeRow(2, "second", ()), 10_000)))
        assert await seen() == ("second", (address,), NO_NODE, False)
        await _of(statements.ask(KeepNode(NodeRow(2, "second", (address._replace(host="there"),)), 10_000)))
        assert await seen() == ("second", (address._replace(host="there"),), NO_NODE, False)


async def test_a_take_over_ends_the_append_in_flight() -> None:
    """A round could otherwise be written behind what the new leader has read."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as sleeper, _statements(dsn, schema) as successor:
        old = await _take(sleeper)
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        waiting = "select count(*) from pg_locks where not granted"
        transaction = beside.transaction()
        await transaction.start()
        await beside.execute(
            "insert into oncelog_journal_0 values(1, 1, 0, '')"
        )  # the append waits for what becomes of it
        appended = sleeper.append(AppendRound(old, 1, (b"one",)))
        while await beside.fetchval(waiting) < 1:
            await asyncio.sleep(0)
        seen = await _of(successor.ask(LookAtLease()))
        taken = successor.ask(TakeLease(seen, "another", 10_000, LOST_EPOCHS))
        found = await _of(taken)
        assert found is not None
        assert (found.epoch, found.is_elsewhere) == (old + 1, False)
        await transaction.rollback()
        with pytest.raises(Fenced):
            await _of(appended)
        assert await _of(successor.ask(ReadRounds(0))) == []
        await beside.close()


async def test_a_lease_that_was_given_back_is_not_renewed() -> None:
    """A renewal that was sent before may be carried out after it, by another connection."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        epoch = await _take(statements)
        await _of(statements.write(RenewLease(epoch, 10_000)))
        assert (await _of(statements.ask(LookAtLease()))).left_ms > 0
        await _of(statements.write(GiveBackLease(epoch, 2)))
        await _of(statements.write(RenewLease(epoch, 10_000)))
        seen = await _of(statements.ask(LookAtLease()))
        assert (seen.renewed, seen.successor, seen.left_ms <= 0) == (0, 2, True)


async def test_a_broker_that_stands_still_in_a_transaction_does_not_hold_up_its_successor() -> None:
    """Stopped in the middle of a checkpoint, it holds its lock on the epoch, and its connection is alive."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as successor:
        old = await _take(successor)
        still = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        await still.transaction().start()
        await still.execute("select epoch from oncelog_leader for share")
        assert await _take(successor) == old + 1
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)):
            while True:
                await still.execute("select 1")


async def test_a_round_whose_connection_was_lost_may_be_carried_out_after_it_was_sent_again() -> None:
    """The second one waits for the key of the first, or the first finds it taken: it is there once, and is not reported
    as missing.
    """
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        epoch = await _take(statements)
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        waiting = "select count(*) from pg_locks where not granted"
        transaction = beside.transaction()
        await transaction.start()
        await beside.execute("insert into oncelog_journal_0 values(1, 1, 0, '')")
        appended = statements.append(AppendRound(epoch, 1, (b"one",)))
        while await beside.fetchval(waiting) < 1:
            await asyncio.sleep(0)
        statements._tables._rounds._connection.terminate()  # type: ignore[attr-defined]
        while await beside.fetchval(waiting) < 2:  # the server knows nothing of it yet, and both wait
            assert not appended.done
            await asyncio.sleep(0)
        await transaction.rollback()
        await _of(appended)
        assert await _of(statements.ask(ReadRounds(0))) == [(1, b"one", 0)]
        await beside.close()


async def _until(look: Callable[[], Awaitable[bool]]) -> None:
    while not await look():
        await asyncio.sleep(0)


async def test_a_round_that_its_synchronous_standby_lacks_is_not_acknowledged_though_it_can_be_seen() -> None:
    """A commit whose connection is cut while it waits for the standby is visible from then on: PostgreSQL only warns
    that it may not have been replicated."""
    with open_directory() as directory, contextmanager(started)({"synchronous_standby_names": "second"}) as primary:
        connection = await asyncpg.connect(primary.dsn, server_settings={"synchronous_commit": "local"})
        await connection.execute("create schema rounds")
        standby = primary.standby(directory / "standby", slot="second")
        try:
            async with _statements(primary.dsn, "rounds") as statements:
                epoch = await _take(statements)
                await _of(statements.append(AppendRound(epoch, 1, (b"both have it",))))
                standby.stop()
                appended = statements.append(AppendRound(epoch, 2, (b"one has it",)))
                waiting = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"

                async def is_waiting() -> bool:
                    return bool(await connection.fetchval(waiting))

                async def is_seen() -> bool:
                    return await connection.fetchval("select count(*) from rounds.oncelog_journal") == 2

                await _until(is_waiting)
                assert not await is_seen()
                await connection.fetch(
                    "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"
                )
                await _until(is_seen)
                while not await is_waiting():  # the question for it
                    assert not appended.done
                standby.start()
                await _of(appended)
        finally:
            standby.stop("immediate")
            await connection.close()


async def test_a_database_that_lacks_a_round_is_noticed_by_what_is_written_beside_rounds() -> None:
    """A snapshot of the metadata log has what was in that round; a place that is kept says that nothing is lost."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        epoch = await _take(statements)
        for number in (1, 2):
            await _of(statements.append(AppendRound(epoch, number, (b"round",))))
        await _of(statements.write(WriteBlob(epoch, "snapshot", b"of both")))
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        await beside.execute("delete from oncelog_journal_0 where number = 2")
        for statement in (WriteBlob(epoch, "snapshot", b"of one more"), KeepPlace(epoch, "")):
            with pytest.raises(RoundsLost):
                await _of(statements.write(statement))
        assert await beside.fetchval("select data from oncelog_blob") == b"of both"
        await beside.close()


async def test_a_database_that_lacks_what_was_written_beside_rounds_is_noticed_at_the_next_write() -> None:
    """A checkpoint that trimmed behind one that is lost would take its rounds with it."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        epoch = await _take(statements)
        for number in (1, 2):
            await _of(statements.write(WriteBlob(epoch, "a", b"%d" % number)))
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        await beside.execute("update oncelog_written set number = number - 1; update oncelog_blob set data = '1'")
        with pytest.raises(RoundsLost):
            await _of(statements.write(WriteBlob(epoch, "a", b"3")))
        assert await beside.fetchval("select data from oncelog_blob") == b"1", "it changes nothing"
        await beside.close()


async def test_an_epoch_that_is_lost_with_its_database_is_not_given_again() -> None:
    """A broker that had it may be alive: in that epoch it would not be fenced."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as sleeper, _statements(dsn, schema) as successor:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        await _take(successor)
        lost = await _take(sleeper)
        await _of(sleeper.append(AppendRound(lost, 1, (b"one",))))
        # What the database was like before, put back from a dump.
        await beside.execute("update oncelog_leader set epoch = epoch - 1, place = ''")
        await beside.execute("update oncelog_lease set owner = 'before', until = '-infinity'")
        assert await _take(successor) > lost
        with pytest.raises(Fenced):
            await _of(sleeper.append(AppendRound(lost, 2, (b"late",))))
        await beside.close()


async def test_the_epoch_moves_once_by_the_given_distance_in_a_database_that_is_elsewhere() -> None:
    """A start that fails before it has kept the place must not use up the epochs, whatever starts it again."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        first = await _taken(statements)
        assert (first.epoch, first.is_elsewhere) == (1, False)
        for jump in (70_000, 80_000):
            await beside.execute("update oncelog_leader set epoch = 1, place = ''")  # put back from the same backup
            moved = await _taken(statements, jump)
            assert (moved.epoch, moved.is_elsewhere) == (1 + jump, True)
            again = await _taken(statements, jump)
            assert (again.epoch, again.is_elsewhere) == (2 + jump, True)
        await _of(statements.write(KeepPlace(again.epoch, again.place)))
        kept = await _taken(statements, 90_000)
        assert (kept.epoch, kept.is_elsewhere) == (again.epoch + 1, False)
        await beside.close()


async def test_the_lock_of_a_connection_that_went_silent_is_replaced() -> None:
    """PostgreSQL has not noticed that packets are dropped, and would keep the lock for as long."""
    dsn, schema = new_schema()
    parts = urlsplit(dsn)
    async with SilentProxy() as proxy, asyncio.timeout(PATIENCE_S):
        assert parts.hostname is not None and parts.port is not None
        proxy.upstream = parts.hostname, parts.port
        user, at, _ = parts.netloc.rpartition("@")
        through_proxy = urlunsplit(parts._replace(netloc=f"{user}{at}127.0.0.1:{proxy.port}"))
        async with _statements(through_proxy, schema) as statements:
            attending = AttendLease(await _take(statements))
            assert await _of(statements.once(attending)) is Attendance.BEGUN
            assert await _of(statements.once(attending)) is Attendance.KEPT
            proxy.is_silent = True
            silent = statements.once(attending)
            await proxy.has_dropped_something()
            proxy.is_silent = False
            found = [await _of(statements.once(attending))]
            while found[-1] is Attendance.NONE:
                found.append(await _of(statements.once(attending)))
            assert found[0] is Attendance.NONE and found[-1] is Attendance.BEGUN
            assert await _of(statements.once(attending)) is Attendance.KEPT
            with pytest.raises(Unanswered):
                await _of(silent)


async def test_a_place_that_the_database_has_left_is_not_kept() -> None:
    """Else the next start would take it for the one of before, and not know what is lost."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        beside = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        taken = await _taken(statements)
        await beside.execute("create table dumped as table oncelog_leader")
        await beside.execute("truncate oncelog_leader")
        await beside.execute("insert into oncelog_leader table dumped")
        await _of(statements.write(KeepPlace(taken.epoch, taken.place)))
        assert (await _taken(statements)).is_elsewhere
        await beside.close()


async def test_tables_that_a_newer_release_has_changed_are_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that stands by has looked at them before: what they mean now it cannot know."""
    from oncelog.broker.storage.postgres import preparing
    from oncelog.broker.storage.postgres.schema import VERSIONS

    dsn, schema = new_schema()
    async with _statements(dsn, schema) as standing_by:
        seen = await _of(standing_by.ask(LookAtLease()))
        with monkeypatch.context() as patch:
            patch.setattr(preparing, "VERSIONS", (*VERSIONS, "create table of_the_newer_release()"))
            async with _statements(dsn, schema):
                pass
        leader = await asyncpg.connect(dsn)
        async with leader.transaction():  # one that writes: it is not ended
            await leader.execute(f"select from {schema}.oncelog_leader for share")
            with pytest.raises(NewerTables, match=f"version {len(VERSIONS) + 1} .*upgrade this node"):
                await _of(standing_by.ask(TakeLease(seen, "older", 10_000, LOST_EPOCHS)))
        await leader.close()
        assert await _of(standing_by.ask(LookAtLease())) == seen


async def test_a_renewal_says_where_the_database_is() -> None:
    """The place stays as when the lease was taken, until the database is promoted, restored or copied."""
    dsn, schema = new_schema()
    async with _statements(dsn, schema) as statements:
        taken = await _taken(statements)
        renewal = RenewLease(taken.epoch, 10_000)
        assert await _of(statements.renew(renewal)) == taken.place
        await _of(statements.write(KeepPlace(taken.epoch, taken.place)))
        assert await _of(statements.renew(renewal)) == taken.place
        restored = await asyncpg.connect(dsn, server_settings={"search_path": schema})
        await restored.execute("create table dumped as table oncelog_leader")
        await restored.execute("truncate oncelog_leader")
        await restored.execute("insert into oncelog_leader table dumped")
        assert await _of(statements.renew(renewal)) != taken.place
        await restored.close()
