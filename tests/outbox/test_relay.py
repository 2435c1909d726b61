"""A relay of a database that a test has in hand, to a broker: each event once, in the order of commits, whatever stops
it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from oncelog.client import Admin, NewTopic
from oncelog.testing import Broker
from oncelog.tools.outbox import relay
from oncelog.tools.outbox.position import OutboxError, Position, topic_of
from oncelog.tools.outbox.refusals import REASON, Refusals
from oncelog.tools.outbox.relaying import Relaying
from oncelog.tools.outbox.target import Target
from tests.outbox.fakes import ORIGIN, FakeDatabase, FakeFeed, Notes, committed
from tests.support.patience import PATIENCE_S


class Running:
    """A relay in a task."""

    def __init__(
        self,
        broker: Broker,
        database: FakeDatabase,
        *,
        name: str = "shop",
        on_step: object = None,
        refusals: Refusals | None = None,
        goes_on: bool = False,
    ) -> None:
        self.notes = Notes()
        self.target = Target(broker.bootstrap_servers, name, {})

        def make_feed() -> FakeFeed:
            feed = FakeFeed(database, on_step)  # type: ignore[arg-type]
            feed.target = self.target
            return feed

        work = Relaying(make_feed, self.target, refusals or Refusals(name), self.notes, goes_on=goes_on)
        self.task = asyncio.create_task(work.run())

    async def until(self, database: FakeDatabase) -> None:
        """Wait until the database knows that all that it has committed is in Kafka."""
        async with asyncio.timeout(PATIENCE_S):
            while database.confirmed < max((end for end, events in database.log if events), default=0):
                change = database.change()
                await asyncio.wait((change, self.task), return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if self.task.done():
                    self.task.result()


@asynccontextmanager
async def running(*arguments: object, **options: object) -> AsyncIterator[Running]:
    found = Running(*arguments, **options)  # type: ignore[arg-type]
    try:
        yield found
    finally:
        found.task.cancel()
        with suppress(asyncio.CancelledError, OutboxError):
            await found.task


def filled() -> FakeDatabase:
    database = FakeDatabase()
    database.commit("a1", "a2")
    database.pass_by()
    database.commit("b1")
    database.commit("c1", "c2", "c3")
    return database


VALUES = ["a1", "a2", "b1", "c1", "c2", "c3"]


async def test_events_are_written_in_the_order_of_commits_and_what_comes_follows(broker: Broker) -> None:
    database = filled()
    async with running(broker, database) as found:
        await found.until(database)
        database.commit("d1")
        await found.until(database)
        assert await committed(broker.bootstrap_servers) == [*VALUES, "d1"]
        assert found.notes.events == 7


@pytest.mark.sampled(5)
@pytest.mark.parametrize("stop_at", range(1, 26))
async def test_a_relay_that_stops_at_any_step_is_continued_by_another_and_cannot_write_any_more(
    broker: Broker, stop_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one is held at a step, as if it were killed there, or slept: the second one takes over. Then the first
    wakes up: it is fenced, and says so. The last steps are those of a relay that waits for what is committed."""
    monkeypatch.setattr(relay, "_WAIT_S", 0.02)
    database = FakeDatabase()
    for values in (["a1", "a2"], ["b1"], ["c1"]):
        database.commit(*values)
    count = 0
    held, wakes = asyncio.Event(), asyncio.Event()

    async def on_step(_: str) -> None:
        nonlocal count
        count += 1
        if count == stop_at:
            held.set()
            await wakes.wait()

    async with running(broker, database, on_step=on_step) as first:
        async with asyncio.timeout(PATIENCE_S):
            await held.wait()
        async with running(broker, database) as second:
            await second.until(database)
            database.commit("d1")
            await second.until(database)
            wakes.set()
            if stop_at > 1:  # before it had fenced no relay, and may
                database.commit("e1")
                with pytest.raises(OutboxError, match="another relay of this name has taken over"):
                    async with asyncio.timeout(PATIENCE_S):
                        await first.task
                await second.until(database)
    assert await committed(broker.bootstrap_servers) in (
        ["a1", "a2", "b1", "c1", "d1"],
        ["a1", "a2", "b1", "c1", "d1", "e1"],
    )


async def test_a_database_that_was_away_is_read_again_from_the_position(broker: Broker) -> None:
    database = filled()
    async with running(broker, database) as found:
        await found.until(database)
        database.lost = 3
        database.commit("d1")
        await found.until(database)
    assert found.notes.problems == ["the database: it was restarted"] * 3
    assert await committed(broker.bootstrap_servers) == [*VALUES, "d1"]


async def test_large_transactions_are_whole_and_small_ones_share_one_of_kafkas(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_MOST_EVENTS", 3)
    database = FakeDatabase()
    database.commit(*(f"{number}" for number in range(20)))
    for number in range(20, 30):
        database.commit(f"{number}")
    async with running(broker, database) as found:
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == [str(number) for number in range(30)]


async def test_a_transaction_does_not_wait_for_a_pause_that_does_not_come(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_MOST_S", 0.0)
    database = filled()
    async with running(broker, database) as found:
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == VALUES
    assert found.notes.rounds == found.notes.transactions == 3


async def test_anothers_open_transaction_hides_no_position(broker: Broker) -> None:
    """An open transaction of, say, a relay that was killed between the position and the commit stays open for
    minutes.
    """
    database = filled()
    async with running(broker, database) as found:
        await found.until(database)
    async with Target(broker.bootstrap_servers, "other", {}) as other:
        await other.prepare()
        await other.take_over()
        async with other.producer.transaction() as transaction:
            await other.store(transaction, Position(ORIGIN, 5, 5))
            await other.producer.flush()
            database.commit("d1")
            async with running(broker, database) as found:
                await found.until(database)
            assert found.notes.starts == [140]
    assert await committed(broker.bootstrap_servers) == [*VALUES, "d1"]


async def test_places_without_events_move_the_position_before_the_database_is_notified(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "_STORE_S", 0.0)
    database = FakeDatabase()
    database.pass_by()
    async with running(broker, database) as found:
        async with asyncio.timeout(PATIENCE_S):
            while database.confirmed < database.end:
                await database.change()
        stored = await found.target.stored(is_alone=True)
    assert stored is not None and (stored.place, stored.last_event) == (110, 100)


REFUSED = {
    "missing": "there is no topic 'missing': `oncelog topic create missing -b ",
    "small": "the event has 301 bytes, and small takes 200 (max.message.bytes)",
    "one": "one has 1 partitions, and no 7",
    "compacted": "compacted is compacted, and the event has no key",
    "": "a message that is none",
    "bare": "row 7 of oncelog.outbox: its headers are none",
}


BARE = {"problem": REFUSED["bare"], "row": 7, "key": None, "value": None}
"""A refused row without key and value, which is not too large to be read."""


async def with_bad_ones(broker: Broker) -> FakeDatabase:
    database = FakeDatabase()
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.create_topics(
            NewTopic("small", 1, configs={"max.message.bytes": "200"}),
            NewTopic("compacted", 1, configs={"cleanup.policy": "compact"}),
            "one",
            "aside",
        )
    database.commit("a1")
    for topic in REFUSED:
        database.commit("x" * 200, topic=topic)
        ((end, (event,)),) = database.log[-1:]
        changes = {
            "one": {"partition": 7},
            "compacted": {"key": None},
            "": {"problem": "a message that is none"},
            "bare": BARE,
        }
        database.log[-1] = end, [event._replace(**changes.get(topic, {})), event._replace(topic="events", ordinal=1)]  # type: ignore[arg-type]
    database.commit("z1")
    return database


async def test_what_the_target_does_not_take_ends_the_relay_before_anything_of_its_transaction_is_there(
    broker: Broker,
) -> None:
    database = await with_bad_ones(broker)
    async with running(broker, database) as found:
        with pytest.raises(OutboxError, match=r"there is no topic 'missing'.*--refuse-to topic:NAME or table:NAME"):
            await found.task
    assert await committed(broker.bootstrap_servers) in (["a1"], [])
    broker.create_topic("missing")  # as the message says
    async with running(broker, database) as found:
        with pytest.raises(OutboxError, match="small takes 200"):
            await found.task
    assert await committed(broker.bootstrap_servers, "missing") in ([], ["x" * 200])


async def test_what_the_target_does_not_take_is_put_aside_in_the_same_transaction(broker: Broker) -> None:
    database = await with_bad_ones(broker)
    async with running(broker, database, refusals=Refusals("shop", topic="aside")) as found:
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == ["a1", *(["x" * 200] * len(REFUSED)), "z1"]
    records = broker.records("aside")
    reasons = [dict(each.headers)[REASON] or b"" for each in records]
    told = [(found.decode(), start) for found, start in zip(reasons, REFUSED.values(), strict=True)]
    assert all(found.startswith(start) for found, start in told), told
    assert [topic for topic, _ in found.notes.refused] == list(REFUSED)


async def test_what_the_broker_refuses_later_is_found_and_put_aside(broker: Broker) -> None:
    """An event that seems to be one that the topic takes: a compressed batch would hide it, so each is sent alone."""
    database = FakeDatabase()
    for number in range(4):
        database.commit(f"{number}")
    end, (event,) = database.log[2]
    database.log[2] = end, [event._replace(timestamp_ms=4_000_000_000_000)]  # message.timestamp.after.max.ms
    async with Admin(broker.bootstrap_servers) as admin:
        await admin.alter_configs({"message.timestamp.after.max.ms": "3600000"}, topic="events")
    broker.create_topic("aside")
    async with running(broker, database) as found:
        with pytest.raises(OutboxError, match=r"cannot be written: .*INVALID_TIMESTAMP"):
            async with asyncio.timeout(PATIENCE_S):
                await found.task
    async with running(broker, database, refusals=Refusals("shop", topic="aside")) as found:
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == ["0", "1", "3"]
    assert len(broker.records("aside")) == 1


async def test_without_the_topic_for_refused_events_it_does_not_begin(broker: Broker) -> None:
    async with running(broker, FakeDatabase(), refusals=Refusals("shop", topic="aside")) as found:
        with pytest.raises(OutboxError, match="there is no topic 'aside': `oncelog topic create aside"):
            await found.task


async def test_a_relay_that_does_not_begin_fences_none_that_runs(broker: Broker) -> None:
    """One that is started with a wrong option ends, and the one that works continues."""
    database = filled()
    async with running(broker, database) as found:
        await found.until(database)
        async with running(broker, FakeDatabase(), refusals=Refusals("shop", topic="aside")) as wrong:
            with pytest.raises(OutboxError, match="there is no topic 'aside'"):
                await wrong.task
        database.commit("d1")
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == [*VALUES, "d1"]


async def test_a_target_without_the_position_of_a_slot_that_was_read_is_refused_unless_allowed(broker: Broker) -> None:
    database = filled()
    database.confirmed = 130
    async with running(broker, database) as found:
        with pytest.raises(OutboxError, match="it is another target than before, or its topic"):
            await found.task
    async with running(broker, database, goes_on=True) as found:
        await found.until(database)
    assert await committed(broker.bootstrap_servers) == ["c1", "c2", "c3"]
    assert broker.records(topic_of("shop"))


@pytest.mark.parametrize("goes_on", [False, True])
async def test_what_the_database_cannot_hand_over_twice_ends_the_relay_or_is_passed_alone(
    broker: Broker, goes_on: bool
) -> None:
    """All that was committed before it is in Kafka by then, and nothing of its SQL transaction."""
    database = filled()
    database.commit("d1", "never")
    database.unreadable = database.end
    database.commit("e1")
    async with running(broker, database, goes_on=goes_on) as found:
        if goes_on:
            await found.until(database)
            assert any("passed, since it cannot be read" in problem for problem in found.notes.problems)
            assert database.kept == [f"event 2 at {database.unreadable}"]
        else:
            sentence = r"has failed twice at event 2 at \d+ \(invalid memory alloc request size\): --go-on"
            with pytest.raises(OutboxError, match=sentence):
                async with asyncio.timeout(PATIENCE_S):
                    await found.task
    expected = ["a1", "a2", "b1", "c1", "c2", "c3"]
    assert await committed(broker.bootstrap_servers) == [*expected, *(["e1"] if goes_on else [])]


async def test_a_database_that_is_away_is_waited_for_however_often_it_says_the_same(broker: Broker) -> None:
    database = filled()
    database.lost = 20
    async with running(broker, database) as found:
        await found.until(database)
    assert found.notes.problems.count("the database: it was restarted") == 20
