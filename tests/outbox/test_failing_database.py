"""What PostgreSQL fails at each time: the relay names it, and ends or passes it; nothing that can be read is lost."""

import pytest

from oncelog.testing import Broker
from oncelog.tools.outbox import sql
from oncelog.tools.outbox.position import OutboxError
from oncelog.tools.outbox.refusals import Refusals
from tests.outbox.postgres_world import Shop, made
from tests.support.postgres.server import Postgres, losing_what_is_out_of_line

pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
_LONG = "(select string_agg(md5(n::text), '') from generate_series(1, 400) n)"
_WITH_VALUE = f"select oncelog.produce('events', 'k', {_LONG})"
_WITH_HEADER = f"select oncelog.produce('events', 'k', 'v', jsonb_build_object('h', {_LONG}))"
_FAILS = """
create function fail() returns trigger language plpgsql as $$ begin raise 'a rule of the house'; end $$"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("statement", [_WITH_VALUE, _WITH_HEADER])
@pytest.mark.parametrize("is_large", [False, True])
async def test_a_row_whose_values_are_lost_is_named_and_put_aside_without_them(
    server: Postgres, broker: Broker, monkeypatch: pytest.MonkeyPatch, statement: str, is_large: bool
) -> None:
    """A polled table's row is put aside, whether its batch is read in one question or in pieces."""
    if is_large:
        monkeypatch.setattr("oncelog.tools.outbox.table_feed._CHUNK_ROWS", 2)
    shop = await made(server, broker, "poll")
    await shop.produce("a1", "a2", "a3")
    await shop.execute(statement, losing_what_is_out_of_line("oncelog.outbox"))
    await shop.produce("b1")
    sentence = await shop.refused()
    assert "row 4 of oncelog.outbox: it cannot be read: " in sentence and "--refuse-to topic:NAME" in sentence
    in_topic = Refusals(shop.name, topic="events")
    assert "--refuse-to table:NAME moves the row aside" in await shop.refused(refusals=in_topic)
    refusals = Refusals(shop.name, table="public.refused", dsn=shop.dsn)
    async with shop.relaying(refusals=refusals) as found:
        await found.until("a1", "a2", "a3", "b1")
    (row,) = await shop.execute("select concat_ws('|', topic, value is null, reason) from refused")
    assert row.startswith("events|t|row 4 of oncelog.outbox: it cannot be read: ")
    assert "its key, value and headers are not kept, as PostgreSQL cannot read them" in row
    await shop.drop()


@pytest.mark.parametrize("carrier", ["table", "poll"])
async def test_rows_that_cannot_be_deleted_end_the_relay_with_a_sentence(
    server: Postgres, broker: Broker, monkeypatch: pytest.MonkeyPatch, carrier: sql.Carrier
) -> None:
    """Their events are in Kafka, and a start that keeps the rows relays what follows."""
    monkeypatch.setattr("oncelog.tools.outbox.relay._STORE_S", 0.0)
    shop = await made(server, broker, carrier)
    await shop.execute(
        _FAILS, "create trigger fail before delete on oncelog.outbox for each row execute function fail()"
    )
    await shop.produce("a1")
    async with shop.relaying() as found:
        await found.until("a1")
        await shop.produce("a2")
        with pytest.raises(OutboxError) as raised:
            await found.task
    sentence = str(raised.value)
    assert "has failed twice at the deletion of rows that are in Kafka (" in sentence
    assert "a rule of the house" in sentence and "--keep forever" in sentence
    await shop.produce("b1")
    async with shop.relaying(keep_s=None) as found:
        await found.until("a1", "a2", "b1")
    await shop.drop()


async def test_a_table_that_takes_no_refused_event_ends_the_relay_with_the_event(shop: Shop) -> None:
    refusals = Refusals(shop.name, table="public.refused", dsn=shop.dsn)
    await refusals.prepare()
    await shop.execute("alter table refused add check (topic <> 'none')")
    await shop.execute("select oncelog.produce('events', 'k', 'a1'), oncelog.produce('none', 'k', 'bad')")
    sentence = await shop.refused(refusals=refusals)
    assert "has failed twice at event 2 of the SQL transaction at" in sentence, sentence
    assert "public.refused does not take it: mend that table, or name another with --refuse-to" in sentence
    other = Refusals(shop.name, table="public.other", dsn=shop.dsn)
    async with shop.relaying(refusals=other) as found:
        await found.until("a1")
    assert await shop.execute("select convert_from(value, 'UTF8') from other") == ["bad"]


async def test_the_rows_of_a_transaction_that_is_passed_stay_and_all_others_go(
    server: Postgres, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The publication has a condition that fails at a row, as a row above 1 GB does: no topic has its transaction."""
    monkeypatch.setattr("oncelog.tools.outbox.slot_feed._CLEAN_S", 0.01)
    monkeypatch.setattr("oncelog.tools.outbox.relay._STORE_S", 0.0)
    shop = await made(server, broker, "table")
    await shop.execute("alter publication oncelog_outbox set table oncelog.outbox where (1 / length(value) < 2)")
    await shop.produce("a1")
    await shop.produce("b1", "", "b3")
    await shop.produce("c1")
    sentence = await shop.refused()
    assert "has failed twice at event 2 of the SQL transaction at" in sentence and "(xid is null)" in sentence
    async with shop.relaying(goes_on=True) as found:
        await found.until("a1", "c1")
        await shop.produce("d1")
        await found.until("a1", "c1", "d1")
        left = "select convert_from(value, 'UTF8') from oncelog.outbox order by id"
        while await shop.execute(left) != ["b1", "", "b3"]:
            assert not found.task.done()
    await shop.drop()
