"""The outbox with a real PostgreSQL: the three carriers behave as one, and each trouble of a database ends in a
sentence."""

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from oncelog.client import Consumer
from oncelog.testing import Broker
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.refusals import Refusals
from tests.outbox.fakes import committed
from tests.outbox.postgres_world import CARRIERS, Running, Shop, made
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres, need_programs, open_directory

pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")


@pytest.fixture
def place() -> Iterator[Path]:
    with open_directory() as found:
        yield found


@pytest.fixture(params=CARRIERS[:2])
async def with_slot(server: Postgres, broker: Broker, request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    found = await made(server, broker, request.param)
    yield found
    await found.drop()


async def test_what_is_committed_is_written_whole_and_in_order_and_what_is_rolled_back_is_not(shop: Shop) -> None:
    await shop.produce("a1", "a2")
    async with shop.relaying() as found:
        await found.until("a1", "a2")
        await shop.execute("begin; select oncelog.produce('events', 'k', 'never'); rollback")
        await shop.execute(
            "do $$ begin perform oncelog.produce('events', 'k', 'b1'); begin perform oncelog.produce("
            "'events', 'k', 'never'); raise 'no'; exception when others then end; end $$"
        )
        await shop.produce("c1")
        await found.until("a1", "a2", "b1", "c1")


async def test_events_have_the_key_the_headers_the_partition_and_the_types_that_were_given(shop: Shop) -> None:
    shop.broker.create_topic("wide", partitions=3)
    async with shop.relaying() as found:
        await shop.execute(
            "select oncelog.produce('wide', '\\x00ff'::bytea, '\\x0001'::bytea, "
            '\'{"a": "ü", "n": 12345678901234567890.10, "z": null}\', 2)',
            'select oncelog.produce(\'wide\', \'key\', \'{"b": 2}\'::jsonb, \'[["a", "1"], ["a", "2"]]\', 2)',
            "select oncelog.produce('wide', null, 'ü', partition => 2)",
            "select oncelog.produce('wide', 'gone', null, partition => 2)",
        )
        records: list[Any] = []
        async with Consumer(bootstrap_servers=found.bootstrap) as consumer, asyncio.timeout(PATIENCE_S):
            places = await consumer.partitions_for("wide")
            consumer.assign(places)
            await consumer.seek_to_beginning(*places)
            while len(records) < 4:
                records += await consumer.poll(100)
    assert [(each.partition, each.key, each.value, [*each.headers]) for each in records] == [
        (2, b"\x00\xff", b"\x00\x01", [("a", "ü".encode()), ("n", b"12345678901234567890.10"), ("z", None)]),
        (2, b"key", b'{"b": 2}', [("a", b"1"), ("a", b"2")]),
        (2, None, "ü".encode(), []),
        (2, b"gone", None, []),
    ]


NO_EVENTS = (
    ("'bad topic', 'k', 'v'", "'bad topic' is no name of a topic"),
    ("null, 'k', 'v'", "null is no name of a topic"),
    ("'..', 'k', 'v'", "'..' is no name of a topic"),
    ("'__consumer_offsets', 'k', 'v'", "__consumer_offsets is an internal topic"),
    ("'t', 'k', 'v', '3'", "headers are an object of JSON, or an array of pairs"),
    ("'t', 'k', 'v', '[[1, 2]]'", "headers are an object of JSON, or an array of pairs"),
    ("'t', 'k', 'v', null, -1", "there is no partition -1"),
)
"""Arguments of `oncelog.produce`, and the sentence with which it fails."""


async def test_what_is_no_event_fails_the_transaction_that_would_publish_it(shop: Shop) -> None:
    from psycopg import Error

    for arguments, sentence in NO_EVENTS:
        with pytest.raises(Error, match=r"oncelog\.produce: ") as told:
            await shop.execute(f"select oncelog.produce({arguments})")
        assert sentence in str(told.value), arguments


async def test_a_transaction_that_commits_after_one_with_higher_numbers_is_not_skipped(shop: Shop) -> None:
    """Its row has the lower id and the lower transaction id, and is committed when those behind it are relayed."""
    async with shop.relaying() as found:
        async with await sql.connect(shop.dsn) as late, late.transaction():
            await late.execute("select oncelog.produce('events', 'k', 'late'::text)")
            await shop.produce("b1")
            await shop.produce("c1")
            await found.until("b1", "c1")
        await found.until("b1", "c1", "late")


async def test_transactions_that_wait_for_the_same_row_are_in_the_order_of_their_commits(shop: Shop) -> None:
    """The first to begin is the second to lock the row; a third that is open holds back what transaction ids would."""
    await shop.execute("create table row (n int)", "insert into row values (0)")
    async with (
        shop.relaying() as found,
        await sql.connect(shop.dsn) as first,
        await sql.connect(shop.dsn) as second,
        await sql.connect(shop.dsn) as third,
    ):
        for connection in (first, third, second):
            await connection.execute("begin")
            await connection.execute("select pg_current_xact_id()")
        update = "update public.row set n = n + 1"
        await second.execute(update)
        waiting = asyncio.create_task(first.execute(update))
        await second.execute("select oncelog.produce('events', 'k', 'second'::text)")
        await second.execute("commit")
        await waiting
        await first.execute("select oncelog.produce('events', 'k', 'first'::text)")
        await first.execute("commit")
        await found.until("second", "first")
        await third.execute("rollback")


async def test_a_large_transaction_is_one_in_kafka_too(shop: Shop) -> None:
    """It has more events than a transaction of several has."""
    async with shop.relaying() as found:
        await shop.execute("select count(oncelog.produce('events', 'k', n::text)) from generate_series(1, 6000) n")
        await found.until(*(str(number) for number in range(1, 6_001)))
    assert shop.broker.last_stable_offset("events") == 6_000 + 1, "events and one control record"


async def test_another_relay_takes_over_and_the_first_one_ends_with_a_sentence(shop: Shop) -> None:
    async with shop.relaying() as first:
        await shop.produce("a1")
        await first.until("a1")
        async with shop.relaying() as second:
            await shop.produce("b1")
            await second.until("a1", "b1")
            await shop.produce("c1")
            await second.until("a1", "b1", "c1")
            if shop.carrier != "poll":  # it is woken by the loss of its slot, and learns it from its next transaction
                with pytest.raises(OutboxError, match="another relay of this name has taken over"):
                    async with asyncio.timeout(PATIENCE_S):
                        await first.task


async def test_a_server_that_crashed_is_waited_for(broker: Broker, place: Path) -> None:
    """All carriers are relayed from one server, which crashes twice."""
    server = Postgres(place / "data", need_programs(), {"fsync": "off"})
    async with AsyncExitStack() as relays:
        relays.callback(server.stop, "immediate")
        found: list[tuple[Shop, Running]] = []
        for carrier in CARRIERS:
            shop = await made(server, broker, carrier)
            broker.create_topic(carrier)
            found.append((shop, await relays.enter_async_context(shop.relaying())))
            await shop.produce("a1", topic=carrier)
            await found[-1][1].until("a1", topic=carrier)
        for value in ("b1", "c1"):
            server.stop("immediate")
            server.start()
            for shop, _ in found:
                await shop.produce(value, topic=shop.carrier)
        for shop, running in found:
            await running.until("a1", "b1", "c1", topic=shop.carrier)
            assert any(problem.startswith("the database: ") for problem in running.notes.problems), shop.carrier


async def test_rows_go_once_they_are_relayed_or_stay_as_long_as_is_asked(
    server: Postgres, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.tools.outbox.slot_feed._CLEAN_S", 0.01)
    monkeypatch.setattr("oncelog.tools.outbox.relay._STORE_S", 0.0)
    for carrier in CARRIERS[1:]:
        shop = await made(server, broker, carrier)
        broker.create_topic(carrier)
        await shop.produce("a1", topic=carrier)
        async with shop.relaying(keep_s=None) as found:
            await found.until("a1", topic=carrier)
            await shop.produce("b1", topic=carrier)
            await found.until("a1", "b1", topic=carrier)
        assert await shop.execute("select count(*) from oncelog.outbox") == [2]
        async with shop.relaying() as found, asyncio.timeout(PATIENCE_S):
            await shop.produce("c1", topic=carrier)
            while await shop.execute("select count(*) from oncelog.outbox") != [0]:
                pass
        assert await committed(found.bootstrap, carrier) == ["a1", "b1", "c1"]
        await shop.drop()


async def test_what_the_target_refuses_is_put_into_a_table_once(shop: Shop) -> None:
    refusals = Refusals(shop.name, table="public.refused", dsn=shop.dsn)
    await shop.execute(
        "select oncelog.produce('none', 'k', 'bad', '{\"h\": \"x\"}'), oncelog.produce('events', 'k', 'good')"
    )
    async with shop.relaying(refusals=refusals) as found:
        await found.until("good")
    rows = "select concat_ws('|', ordinal, topic, convert_from(value, 'UTF8'), headers, reason) from refused"
    (row,) = await shop.execute(rows)
    assert row.startswith('0|none|bad|[["h", "x"]]|there is no topic')


async def test_install_may_be_repeated_and_remove_takes_all_away(shop: Shop) -> None:
    assert await shop.install() and await shop.install()
    await shop.produce("a1")
    async with await sql.connect(shop.dsn) as connection:
        with pytest.raises(OutboxError, match="1 events are not relayed: run the relay, or repeat with --force"):
            await sql.remove(connection, shop.name, None, force=False)
        await sql.remove(connection, shop.name, None, force=True)
        with pytest.raises(OutboxError, match=r"no relay .* is installed"):
            await sql.remove(connection, shop.name, None, force=False)
    left = "select count(*) from pg_namespace where nspname = 'oncelog' union all select count(*) from pg_publication"
    assert await shop.execute(left) == [0, 0]
    assert await shop.execute(f"select count(*) from pg_replication_slots where slot_name = '{shop.name}'") == [0]
    assert "no relay" in await shop.refused()


async def test_settings_of_a_database_change_no_value(shop: Shop) -> None:
    for setting in ("bytea_output = 'escape'", "datestyle = 'SQL, DMY'"):
        await shop.execute(f"alter database {shop.database} set {setting}")
    async with shop.relaying() as found:
        async with await sql.connect(shop.dsn) as connection:
            await connection.execute("select oncelog.produce('events', 'k', '\\x5c00deadbeef')")
            await connection.execute("select oncelog.produce('events', '\\x6b'::bytea, '\\x5c785c5c'::bytea)")
        await found.until("\\x5c00deadbeef", "\\x\\\\")


HOSTILE_DEFAULTS = {
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "idle_in_transaction_session_timeout": "1s",
    "idle_session_timeout": "1s",
    "transaction_timeout": "1s",
    "jit": "on",
}
"""Settings that a database may have for its sessions, and that ours must override."""


async def test_settings_of_a_database_end_no_session_and_refuse_no_write(shop: Shop) -> None:
    names = await shop.execute("select name from pg_settings")
    found = {name: value for name, value in HOSTILE_DEFAULTS.items() if name in names}
    await shop.execute(*(f"alter database {shop.database} set {name} = '{value}'" for name, value in found.items()))
    async with shop.relaying() as running:
        await shop.produce("a1")
        await running.until("a1")
    async with (
        await sql.connect(shop.dsn) as plain,
        await sql.connect(shop.dsn, replication="database") as replicating,
    ):
        for connection in (plain, replicating):
            for name, value in found.items():
                assert (await sql.one(connection, f"show {name}"))[0] not in (value, ""), name


async def test_who_may_produce_gets_no_other_rights(shop: Shop) -> None:
    """A type and a function of the caller's own temporary schema are not used in the place of PostgreSQL's."""
    from psycopg import Error

    role = f"attacker_{shop.name}"
    await shop.execute(
        f"create role {role} login",
        f"grant usage on schema oncelog to {role}",
        f"grant execute on all functions in schema oncelog to {role}",
    )
    attack = (
        "create function pg_temp.evil(v pg_catalog.bytea) returns bool language plpgsql as $$ begin if current_user <>"
        f" '{role}' then execute 'alter role {role} superuser'; end if; return true; end $$",
        "create domain pg_temp.bytea as pg_catalog.bytea check (pg_temp.evil(value))",
        "create domain pg_temp.text as pg_catalog.text check (pg_temp.evil(value::pg_catalog.text::pg_catalog.bytea))",
        "select oncelog.produce('events'::pg_catalog.text, 'k'::pg_catalog.bytea, 'v'::pg_catalog.bytea, '{\"a\": 1}')",
    )
    async with await sql.connect(shop.server.dsn_of(shop.database, role)) as connection:
        for statement in attack:
            await connection.execute(statement)
        with pytest.raises(Error, match="permission denied"):
            await connection.execute("select * from oncelog.secret")
    assert await shop.execute(f"select rolsuper from pg_roles where rolname = '{role}'") == [False]
    await shop.execute(f"drop owned by {role}", f"drop role {role}")


async def test_messages_of_others_with_the_same_prefix_are_no_events(server: Postgres, broker: Broker) -> None:
    """Anyone may write them, without the right to produce."""
    shop = await made(server, broker, "wal")
    async with shop.relaying() as found:
        await shop.execute("select pg_logical_emit_message(true, 'oncelog', 'junk')")
        await shop.produce("a1")
        await found.until("a1")
    await shop.drop()


async def test_a_role_with_the_rights_that_are_printed_runs_the_relay(shop: Shop) -> None:
    role = f"relay_role_{shop.name}"
    await shop.execute(
        f"create role {role} login {'replication' if shop.carrier != 'poll' else ''}",
        f"grant usage on schema oncelog to {role}",
        f"grant select, update on oncelog.relays to {role}",
        f"grant select on oncelog.secret to {role}",
    )
    if shop.carrier != "wal":
        await shop.execute(f"grant select, update, delete on oncelog.outbox to {role}")
    refusals = Refusals(shop.name, table="oncelog.refused", dsn=shop.server.dsn_of(shop.database, role))
    assert "permission denied" in await shop.refused(user=role, refusals=refusals)
    async with shop.relaying(user=role) as found:
        await shop.produce("a1")
        await found.until("a1")
    await shop.execute(f"drop owned by {role}", f"drop role {role}")


async def test_what_was_published_as_it_was_installed_before_is_not_left_out(server: Postgres, broker: Broker) -> None:
    shop = await made(server, broker, "table")
    async with await sql.connect(shop.dsn) as early, early.transaction():
        await early.execute("select oncelog.produce('events', 'k', 'a1'::text)")
        shop.carrier = "wal"
        await shop.install()
    await shop.produce("b1")
    async with shop.relaying() as found:
        await found.until("a1", "b1")
    await shop.drop()


async def test_a_long_backlog_is_relayed_in_batches_of_whole_transactions(
    server: Postgres, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.tools.outbox.table_feed._MOST_ROWS", 3)
    shop = await made(server, broker, "poll")
    for number in range(5):
        await shop.produce(f"{number}a", f"{number}b")
    async with shop.relaying() as found:
        await found.until(*(f"{number}{letter}" for number in range(5) for letter in "ab"))
    assert await shop.execute("select last_batch from oncelog.relays") == [3]
    await shop.drop()


# --- what must not continue -------------------------------------------------------------------------------------------


async def relayed(shop: Shop, value: str, topic: str = "events") -> None:
    async with shop.relaying() as found:
        await shop.produce(value, topic=topic)
        await found.until(value, topic=topic)


async def test_a_slot_that_is_gone_ends_the_relay_and_what_is_said_continues(with_slot: Shop) -> None:
    shop = with_slot
    await relayed(shop, "a1")
    await shop.execute(f"select pg_drop_replication_slot('{shop.name}')")
    await shop.produce("lost")
    assert "is gone: what was committed and is not in Kafka is in no slot any more" in await shop.refused()
    with pytest.raises(OutboxError, match="--replace-slot` makes one that begins now"):
        await shop.install()
    await shop.install(replace_slot=True)
    told = await shop.refused()
    assert "was made again" in told and "What was committed between the two is in no slot" in told
    async with shop.relaying(goes_on=True) as found:
        await shop.produce("b1")
        await found.until("a1", "b1")


async def test_a_slot_whose_log_was_removed_ends_the_relay(broker: Broker, place: Path) -> None:
    """It held back more than max_slot_wal_keep_size while no relay ran."""
    settings = {"fsync": "off", "max_slot_wal_keep_size": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    server = Postgres(place / "data", need_programs(), settings)
    try:
        shop = await made(server, broker, "wal")
        await relayed(shop, "a1")
        await shop.produce("lost")
        for _ in range(4):
            await shop.execute("select pg_switch_wal()", "select pg_current_xact_id()", "checkpoint")
        assert "was invalidated (" in await shop.refused()
        with pytest.raises(OutboxError, match="was invalidated"):
            await shop.install()
        await shop.install(replace_slot=True)
        assert "was made again" in await shop.refused()
        async with shop.relaying(goes_on=True) as found:
            await shop.produce("b1")
            await found.until("a1", "b1")
    finally:
        server.stop("immediate")


async def test_a_slot_that_something_else_has_read_ends_the_relay(with_slot: Shop) -> None:
    shop = with_slot
    await relayed(shop, "a1")
    await shop.produce("taken")
    await shop.execute(f"select pg_replication_slot_advance('{shop.name}', pg_current_wal_lsn())")
    assert "by something else" in await shop.refused()
    async with shop.relaying(goes_on=True) as found:
        await shop.produce("b1")
        await found.until("a1", "b1")


async def test_another_target_ends_the_relay(shop: Shop) -> None:
    async with shop.relaying() as found, asyncio.timeout(PATIENCE_S):
        await shop.produce("a1")
        await found.until("a1")
        # Before the database gets a confirmation, the other target would get all that there was: nothing is lost then.
        told = (
            "select last_batch > 0 or exists (select from pg_replication_slots where slot_name = name"
            " and confirmed_flush_lsn > slot_lsn) from oncelog.relays"
        )
        while await shop.execute(told) != [True]:
            pass
    with Broker() as other:
        other.create_topic("events")
        assert "it is another target than before" in await shop.refused(bootstrap=other.bootstrap_servers)


async def test_another_database_behind_the_same_name_ends_the_relay_and_fences_no_relay(
    server: Postgres, broker: Broker
) -> None:
    shop, other = await made(server, broker, "poll"), await made(server, broker, "poll")
    async with shop.relaying() as found:
        await shop.produce("a1")
        await found.until("a1")
        await other.execute(f"update oncelog.relays set name = '{shop.name}'")
        other.name = shop.name
        assert "is of another database" in await other.refused()
        await shop.produce("b1")
        await found.until("a1", "b1")


async def test_a_database_that_went_back_ends_the_relay(broker: Broker, place: Path) -> None:
    """Its directory is copied, and put back later: the identifier, the slot and the timeline are the same. It has an
    outbox of each carrier."""
    server = Postgres(place / "data", need_programs(), {"fsync": "off"})
    try:
        shops = [await made(server, broker, carrier) for carrier in CARRIERS]
        for shop in shops:
            broker.create_topic(shop.carrier)
            await relayed(shop, "a1", topic=shop.carrier)
        server.stop()
        subprocess.run(["cp", "-a", str(server.directory), str(place / "copy")], check=True)
        server.start()
        for shop in shops:
            async with shop.relaying() as running:
                await shop.produce("b1", topic=shop.carrier)
                await running.until("a1", "b1", topic=shop.carrier)
        server.stop()
        shutil.rmtree(server.directory)
        subprocess.run(["cp", "-a", str(place / "copy"), str(server.directory)], check=True)
        server.start()
        for shop in shops:
            await shop.produce("c1", topic=shop.carrier)
            assert "the database went back" in await shop.refused(), shop.carrier
            found: list[str] = []
            async with shop.relaying(goes_on=True) as running, asyncio.timeout(PATIENCE_S):
                while "c1" not in found:
                    found = await committed(running.bootstrap, shop.carrier)
            # "Some of it perhaps twice": before PostgreSQL 17 a slot is written to the disk some time later.
            assert found in (["a1", "b1", "c1"], ["a1", "b1", "a1", "c1"]), shop.carrier
    finally:
        server.stop("immediate")


@pytest.mark.slow
async def test_a_promotion_that_lost_commits_is_noticed_and_what_is_new_is_relayed(
    broker: Broker, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An asynchronous standby that has not received the last commits is promoted: Kafka has an event of a transaction
    that the database has not. Slots come with it (PostgreSQL 17 and later)."""
    monkeypatch.setattr("oncelog.tools.outbox.relay._STORE_S", 0.0)
    server = Postgres(place / "primary", need_programs(), {"fsync": "off"})
    try:
        async with await sql.connect(server.dsn) as connection:
            (version,) = await sql.one(connection, "select current_setting('server_version_num')::int")
        shops = [await made(server, broker, carrier) for carrier in (CARRIERS if version >= 170000 else ("poll",))]
        standby = server.standby(place / "standby", settings={"hot_standby_feedback": "on"})
        try:
            async with AsyncExitStack() as relays:
                running = [await relays.enter_async_context(shop.relaying()) for shop in shops]
                for shop, found in zip(shops, running, strict=True):
                    broker.create_topic(shop.carrier)
                    await shop.produce("a1", topic=shop.carrier)
                    await found.until("a1", topic=shop.carrier)
                    if shop.carrier != "poll":
                        await synced(standby, shop)
                await cut_off(shops[0], standby)
                for shop, found in zip(shops, running, strict=True):
                    await shop.produce("lost", topic=shop.carrier)
                    await found.until("a1", "lost", topic=shop.carrier)
            server.stop("immediate")
            standby.promote()
            for shop in shops:
                after = Shop(standby, broker, shop.carrier, shop.name, shop.database)
                await after.produce("b1", topic=shop.carrier)
                told = await after.refused()
                assert "lost commits" in told or "Commits were lost" in told, shop.carrier
                async with after.relaying(goes_on=True) as found:
                    await found.until("a1", "lost", "b1", topic=shop.carrier)
                async with after.relaying() as found:
                    await after.produce("c1", topic=shop.carrier)
                    await found.until("a1", "lost", "b1", "c1", topic=shop.carrier)
        finally:
            standby.stop("immediate")
    finally:
        server.stop("immediate")


async def synced(standby: Postgres, shop: Shop) -> None:
    """Returns when the standby has the slot."""
    from psycopg.errors import ObjectNotInPrerequisiteState

    async with await sql.connect(standby.dsn) as connection, asyncio.timeout(PATIENCE_S):
        while True:
            await shop.execute("select pg_log_standby_snapshot()")
            with suppress(ObjectNotInPrerequisiteState):  # it has not got so far yet
                await connection.execute("select pg_sync_replication_slots()")
            rows = await connection.execute(
                "select 1 from pg_replication_slots where slot_name = %s and synced and not temporary", [shop.name]
            )
            if await rows.fetchone() is not None:
                return


async def cut_off(shop: Shop, standby: Postgres) -> None:
    """The standby gets what is committed now, and nothing behind it."""
    (end,) = await shop.execute("select pg_current_wal_insert_lsn()::text")
    async with await sql.connect(standby.dsn) as connection, asyncio.timeout(PATIENCE_S):
        for question in (
            f"select pg_last_wal_replay_lsn() >= '{end}'::pg_lsn",
            "select not exists (select from pg_stat_wal_receiver)",
        ):
            while not (await (await connection.execute(question)).fetchone() or (False,))[0]:
                pass
            await connection.execute("alter system set primary_conninfo = 'host=127.0.0.1 port=1'")
            await connection.execute("select pg_reload_conf()")
