"""A consumer that is closed gives its partitions up as in a rebalance: the callback may commit, and cannot stop it."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog.client import (
    Admin,
    CommitFailed,
    Consumer,
    ConsumerOptions,
    InvalidState,
    Producer,
    TopicPartition,
)
from tests.clients.topics import new_topic
from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults
from tests.support.patience import SHORT_OF_DEFAULTS_S
from tests.support.processes.daemon import Daemon

KINDS = {
    "eager": ConsumerOptions(heartbeat_interval_ms=50),
    "cooperative": ConsumerOptions(partition_assignment_strategy=["cooperative-sticky"]),
    "consumer": ConsumerOptions(group_protocol="consumer"),
}


async def opened(daemon: Daemon, kind: str = "eager", **options: Any) -> Consumer:
    """A member of a new group that has read the only record of each of two partitions."""
    topic = await new_topic(daemon.bootstrap, 2)
    async with Producer(daemon.bootstrap) as producer:
        for partition in range(2):
            await producer.send(topic, b"value", partition=partition)
    consumer = Consumer(
        topic,
        bootstrap_servers=daemon.bootstrap,
        group_id=topic,
        auto_offset_reset="earliest",
        **{**KINDS[kind], **options},
    )
    await consumer.__aenter__()
    read = 0
    while read < 2:
        read += len(await consumer.poll(10_000))
    return consumer


async def group_of(daemon: Daemon, consumer: Consumer) -> tuple[dict[TopicPartition, int], int]:
    """Its committed offsets, and how many members it has."""
    group_id = consumer.group_metadata().group_id
    async with Admin(daemon.bootstrap) as admin:
        offsets = await admin.list_group_offsets(group_id)
        (described,) = await admin.describe_groups(group_id)
    return {place: each.offset for place, each in offsets.items()}, len(described.members)


@pytest.mark.parametrize("kind", KINDS)
async def test_on_revoke_gets_all_partitions_at_the_close_and_may_commit(daemon: Daemon, kind: str) -> None:
    revoked: list[TopicPartition] = []

    async def on_revoke(partitions: Sequence[TopicPartition]) -> None:
        revoked.extend(partitions)
        await consumer.commit_sync()
        with pytest.raises(InvalidState, match="the consumer is closed"):
            await consumer.poll(0)

    consumer = await opened(daemon, kind, on_revoke=on_revoke)
    owned = consumer.assignment()
    await consumer.close()
    await consumer.close()
    assert sorted(revoked) == owned and len(owned) == 2
    assert await group_of(daemon, consumer) == (dict.fromkeys(owned, 1), 0)
    with pytest.raises(InvalidState):
        await consumer.commit_sync()


async def test_auto_commit_is_done_before_on_revoke_and_a_commit_in_the_background_before_the_group_is_left(
    daemon: Daemon,
) -> None:
    seen: list[object] = []

    async def on_revoke(partitions: Sequence[TopicPartition]) -> None:
        seen.append(sorted(each.offset for each in (await consumer.committed()).values()))
        consumer.commit_async({partitions[0]: 7}, lambda _, error: seen.append(error))

    consumer = await opened(daemon, on_revoke=on_revoke, enable_auto_commit=True, auto_commit_interval_ms=1_000_000)
    await consumer.close()
    assert seen == [[1, 1], None]
    offsets, members = await group_of(daemon, consumer)
    assert (sorted(offsets.values()), members) == ([1, 7], 0)


async def test_what_on_revoke_raises_is_logged_and_the_group_is_left(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    def on_revoke(_: object) -> None:
        raise RuntimeError("of the program")

    consumer = await opened(daemon, on_revoke=on_revoke)
    await consumer.close()
    (said,) = [each for each in caplog.records if each.name == "oncelog.client"]
    assert said.levelno == logging.WARNING and "on_revoke failed" in said.getMessage()
    assert said.exc_info is not None and "of the program" in str(said.exc_info[1])
    assert (await group_of(daemon, consumer))[1] == 0


async def test_a_callback_that_never_ends_is_ended_with_the_time_for_the_close(daemon: Daemon) -> None:
    ended = asyncio.Event()

    async def on_revoke(_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    consumer = await opened(daemon, on_revoke=on_revoke)
    async with asyncio.timeout(SHORT_OF_DEFAULTS_S):
        await consumer.close(200)
    assert ended.is_set()
    with pytest.raises(InvalidState):
        consumer.assignment()


async def test_a_close_that_is_cancelled_in_the_callback_leaves_the_group_and_stays_cancelled(daemon: Daemon) -> None:
    begun = asyncio.Event()

    async def on_revoke(_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    consumer = await opened(daemon, on_revoke=on_revoke)
    closing = asyncio.ensure_future(consumer.close())
    await begun.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert (await group_of(daemon, consumer))[1] == 0


async def test_a_member_that_the_group_has_removed_loses_its_partitions_at_the_close(start_daemon: Start) -> None:
    daemon, faults = with_faults(start_daemon, "group.initial.rebalance.delay.ms=0")
    told: list[str] = []
    consumer = await opened(
        daemon,
        heartbeat_interval_ms=40_000,  # until its next heartbeat it knows nothing
        on_revoke=lambda _: told.append("revoked"),
        on_lost=lambda partitions: told.append(f"lost {len(partitions)}"),
    )
    faults.advance_time(100_000)
    with pytest.raises(CommitFailed):
        await consumer.commit_sync()
    await consumer.close()
    assert told == ["lost 2"]


async def test_who_assigns_its_partitions_itself_is_not_revoked_any(daemon: Daemon) -> None:
    revoked: list[object] = []
    async with Consumer(bootstrap_servers=daemon.bootstrap, group_id="alone", on_revoke=revoked.append) as consumer:
        consumer.assign([TopicPartition("any", 0)])
    assert revoked == []
