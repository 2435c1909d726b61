"""A session outlasts its broker, and a transaction that was open for too long."""

import asyncio
from itertools import product
from typing import Any

import pytest

from oncelog.client import (
    Admin,
    Consumer,
    InvalidState,
    NewTopic,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionalSession,
)
from oncelog.faults import Action, ApiKey, ErrorCode, FaultClient, Point, Rule, Selector
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults
from tests.support.patience import GIVES_UP_MS, PATIENCE_S, until
from tests.support.processes.daemon import Daemon

COUNT = 20


async def fill(daemon: Daemon) -> None:
    async with Admin(daemon.bootstrap) as admin:
        await admin.create_topics(NewTopic("in", 1, 1), NewTopic("out", 1, 1))
    async with Producer(daemon.bootstrap) as producer:
        for number in range(COUNT):
            await producer.send_soon("in", b"%d" % number)


async def results(daemon: Daemon) -> list[bytes | None]:
    async with Consumer("out", bootstrap_servers=daemon.bootstrap, auto_offset_reset="earliest") as consumer:
        found: list[bytes | None] = []
        while len(found) < COUNT or await consumer.poll(0):
            found += [each.value for each in await consumer.poll(10_000)]
        return found


@pytest.mark.sampled(7)
@pytest.mark.parametrize(
    ("api", "point", "version"),
    list(product((ApiKey.PRODUCE, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN), (Point.REQUEST, Point.ANSWER), (1, 2))),
    ids=lambda value: getattr(value, "name", value),
)
async def test_a_broker_that_dies_in_a_transaction_changes_nothing_and_raises_nothing(
    start_daemon: Start, api: ApiKey, point: Point, version: int
) -> None:
    daemon, faults = with_faults(start_daemon, f"oncelog.feature.transaction.version={version}")
    await fill(daemon)
    faults.plant(Rule(point, Action.CRASH, Selector(api=api, transactional_id="copier")))

    async def revive() -> None:
        await asyncio.to_thread(daemon.process.wait, 30)
        await asyncio.to_thread(daemon.start)

    reviving = asyncio.ensure_future(revive())
    async with TransactionalSession(
        "in",
        bootstrap_servers=daemon.bootstrap,
        group_id="copiers",
        transactional_id="copier",
        max_records=6,
        producer={"retry_backoff_ms": 20},
        consumer={"retry_backoff_ms": 20},
    ) as session:
        done = 0
        async for batch in session:
            async with batch:
                for record in batch:
                    await batch.send_soon("out", record.value)
            done += len(batch) if batch.committed else 0
            if done >= COUNT:
                break
    await reviving
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)]


async def test_a_broker_that_is_away_for_longer_than_any_call_waits_raises_nothing(start_daemon: Start) -> None:
    daemon = start_daemon()
    await fill(daemon)
    has_given_up = asyncio.Event()

    async def copy() -> None:
        done = 0
        async with TransactionalSession(
            "in",
            bootstrap_servers=daemon.bootstrap,
            group_id="copiers",
            transactional_id="copier",
            max_records=6,
            consumer={"default_api_timeout_ms": GIVES_UP_MS, "request_timeout_ms": GIVES_UP_MS, "retry_backoff_ms": 20},
            producer={"max_block_ms": GIVES_UP_MS, "request_timeout_ms": GIVES_UP_MS, "retry_backoff_ms": 20},
        ) as session:
            async for batch in session:
                async with batch:
                    for record in batch:
                        await batch.send_soon("out", record.value)
                    await batch.flush()
                    if not has_given_up.is_set():
                        daemon.kill()
                if batch.error is not None:
                    has_given_up.set()
                done += len(batch) if batch.committed else 0
                if done >= COUNT:
                    return

    copying = asyncio.ensure_future(copy())
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.wait((copying, asyncio.ensure_future(has_given_up.wait())), return_when=asyncio.FIRST_COMPLETED)
        await asyncio.to_thread(daemon.start)
        await copying
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)]


async def overstay(daemon: Daemon, faults: FaultClient) -> None:
    """The first transaction is open for longer than it may, and its member away for longer than the group waits."""
    async with TransactionalSession(
        "in", bootstrap_servers=daemon.bootstrap, group_id="copiers", transactional_id="copier", max_records=COUNT
    ) as session:
        is_late = True
        async for batch in session:
            async with batch:
                for record in batch:
                    await batch.send("out", record.value)
                if is_late:
                    faults.advance_time(100_000)
            assert not (is_late and batch.committed)
            is_late = False
            if batch.committed:
                return


async def test_a_transaction_that_was_open_for_too_long_is_done_again(start_daemon: Start) -> None:
    daemon, faults = with_faults(start_daemon)
    await fill(daemon)
    await overstay(daemon, faults)
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)]


async def test_in_the_first_protocol_such_a_transaction_raises_since_it_may_be_another_instance(
    start_daemon: Start,
) -> None:
    daemon, faults = with_faults(start_daemon, "oncelog.feature.transaction.version=1")
    await fill(daemon)
    with pytest.raises(ProducerFenced):
        await overstay(daemon, faults)


def fence_a_commit(faults: FaultClient, point: Point) -> int:
    """The second batch's commit is lost, and the next request says that the producer is fenced: as a leader does that
    cannot know which epochs the one before it gave out. Returns the rule of the loss."""
    ends = Selector(api=ApiKey.END_TXN, transactional_id="copier")
    lost = faults.plant(Rule(point, Action.DROP, ends, nth=2))
    arrived = 2 if point is Point.ANSWER else 1
    faults.plant(Rule(Point.REQUEST, Action.ERROR, ends, nth=arrived + 1, error=ErrorCode.PRODUCER_FENCED))
    return lost


async def write(batch: Any) -> None:
    async with batch:
        for record in batch:
            await batch.send_soon("out", record.value)


@pytest.mark.parametrize("point", [Point.REQUEST, Point.ANSWER], ids=lambda point: point.name)
@pytest.mark.parametrize("cancelled_in", [None, "the commit", ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.INIT_PRODUCER_ID])
async def test_the_groups_offsets_say_what_became_of_a_commit_whose_producer_was_fenced(
    start_daemon: Start, point: Point, cancelled_in: ApiKey | str | None
) -> None:
    """Committed records do not come again, all others do; also if the task is cancelled before the outcome is known:
    while the commit, the cause of the fence, or the next epoch is asked for.
    """
    daemon, faults = with_faults(start_daemon)
    await fill(daemon)
    lost = fence_a_commit(faults, point)
    done, outcomes = 0, []
    async with TransactionalSession(
        "in", bootstrap_servers=daemon.bootstrap, group_id="copiers", transactional_id="copier", max_records=6
    ) as session:
        held = lost
        if isinstance(cancelled_in, ApiKey):
            held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=cancelled_in)))
        async for batch in session:
            writing = asyncio.ensure_future(write(batch))
            if len(outcomes) == 1 and cancelled_in:
                await asyncio.to_thread(until, lambda: faults.status(held).fired_count > 0)
                writing.cancel()
                await asyncio.wait((writing,))
                if held != lost:
                    faults.release(held)
            await asyncio.wait((writing,))
            outcomes.append(batch.committed)
            assert len(outcomes) < COUNT, "the session goes on"
            done += len(batch) if batch.committed else 0
            if done >= COUNT - (6 if cancelled_in and point is Point.ANSWER else 0):
                break
    assert outcomes[:3] == [True, point is Point.ANSWER and not cancelled_in, True]
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)]


@pytest.mark.parametrize("point", [Point.REQUEST, Point.ANSWER], ids=lambda point: point.name)
@pytest.mark.parametrize("is_another", [False, True], ids=["one session", "two sessions"])
async def test_a_commit_of_the_offsets_that_the_group_has_already_is_told_from_that_of_before(
    start_daemon: Start, point: Point, is_another: bool
) -> None:
    """After a seek back a batch ends where the group is: an earlier commit of that offset says nothing of its own."""
    daemon, faults = with_faults(start_daemon)
    await fill(daemon)
    fence_a_commit(faults, point)
    outcomes: list[bool] = []

    async def replay(session: TransactionalSession, until_count: int) -> None:
        async for batch in session:
            await write(batch)
            outcomes.append(batch.committed)
            assert len(outcomes) < COUNT, "the session goes on"
            if outcomes.count(True) == until_count:
                return
            session.consumer.seek(TopicPartition("in", 0), 0)

    def opened() -> TransactionalSession:
        return TransactionalSession(
            "in", bootstrap_servers=daemon.bootstrap, group_id="copiers", transactional_id="copier", max_records=COUNT
        )

    async with opened() as session:
        await replay(session, 1 if is_another else 2)
    if is_another:
        async with opened() as session:
            while not session.consumer.assignment():
                await session.consumer.poll(100)
            session.consumer.seek(TopicPartition("in", 0), 0)
            await replay(session, 2)
    assert outcomes == ([True, True] if point is Point.ANSWER else [True, False, True])
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)] * 2


async def test_a_session_whose_task_is_cancelled_while_a_fence_is_looked_into_continues(start_daemon: Start) -> None:
    """The session continues, for no other producer has taken its id."""
    daemon, faults = with_faults(start_daemon)
    await fill(daemon)
    offsets = Selector(api=ApiKey.TXN_OFFSET_COMMIT)
    faults.plant(Rule(Point.REQUEST, Action.ERROR, offsets, nth=2, error=ErrorCode.INVALID_PRODUCER_EPOCH))
    held = faults.plant(Rule(Point.REQUEST, Action.HOLD, Selector(api=ApiKey.DESCRIBE_TRANSACTIONS)))
    outcomes: list[bool] = []
    async with TransactionalSession(
        "in", bootstrap_servers=daemon.bootstrap, group_id="copiers", transactional_id="copier", max_records=6
    ) as session:
        async for batch in session:
            writing = asyncio.ensure_future(write(batch))
            if len(outcomes) == 1:
                await asyncio.to_thread(until, lambda: faults.status(held).fired_count > 0)
                writing.cancel()
                await asyncio.wait((writing,))
                faults.release(held)
            await asyncio.wait((writing,))
            outcomes.append(batch.committed)
            if len(outcomes) == 5:
                break
    assert outcomes == [True, False, True, True, True]
    assert await results(daemon) == [b"%d" % number for number in range(COUNT)]


async def test_a_batch_says_where_its_results_are_sent(daemon: Daemon) -> None:
    await fill(daemon)
    async with TransactionalSession("in", bootstrap_servers=daemon.bootstrap, group_id="copier") as session:
        async for batch in session:
            for send in (batch.send, batch.send_soon):
                with pytest.raises(InvalidState, match=r"async with batch:"):
                    await send("out", b"value")
            async with batch:
                await batch.send("out", b"value")
            break
