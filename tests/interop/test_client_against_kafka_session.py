"""Read-process-write by our client, against our daemon in both protocols of transactions and against Apache Kafka: each
result is there once, and the group's offsets are those of the results."""

import asyncio

import pytest

from oncelog.client import (
    Admin,
    ConfigError,
    Consumer,
    ConsumerGroupMetadata,
    InvalidState,
    Producer,
    ProducerFenced,
    TopicPartition,
    TransactionalSession,
)
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.cluster import CoordinatorKind
from oncelog.client.wire.group_apis import LEAVE_GROUP
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.clients.topics import new_topic
from tests.interop.test_client_against_kafka import bootstrap as bootstrap
from tests.interop.test_client_against_kafka import read_all, values
from tests.support.foreign.interop import unique
from tests.support.patience import PATIENCE_S

COUNT = 30


async def scene(bootstrap: str, partitions: int = 2) -> tuple[str, str]:
    """Topics: one with `COUNT` committed records and some aborted ones behind them, one that is empty."""
    source, target = await new_topic(bootstrap, partitions), await new_topic(bootstrap)
    async with Producer(bootstrap, transactional_id=unique("id")) as producer:
        async with producer.transaction() as transaction:
            for number in range(COUNT):
                await transaction.send_soon(source, b"%d" % number, partition=number % partitions)
        async with producer.transaction() as transaction:
            for partition in range(partitions):
                await transaction.send_soon(source, b"aborted", partition=partition)
            await transaction.abort()
    return source, target


async def committed(bootstrap: str, group: str, topic: str, partitions: int = 2) -> list[int]:
    places = [TopicPartition(topic, index) for index in range(partitions)]
    async with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        found = await consumer.committed(*places)
    return [found[place].offset if place in found else -1 for place in places]


async def copy(session: TransactionalSession, target: str, count: int = COUNT) -> int:
    """Copy until so many records are committed; return how many are."""
    done = 0
    async for batch in session:
        async with batch:
            for record in batch:
                await batch.send_soon(target, record.value)
        done += len(batch) if batch.committed else 0
        if done >= count:
            return done
    raise AssertionError("a session is endless")


async def test_each_record_is_copied_once_and_the_group_stands_behind_the_last_one(bootstrap: str) -> None:
    source, target = await scene(bootstrap)
    group = unique("group")
    done = 0
    for wanted in (COUNT // 2, COUNT):
        async with TransactionalSession(
            source, bootstrap_servers=bootstrap, group_id=group, transactional_id=group, max_records=7
        ) as session:
            done += await copy(session, target, wanted - done)
    assert sorted(values(await read_all(bootstrap, target))) == sorted(b"%d" % number for number in range(COUNT))
    assert sum(await committed(bootstrap, group, source)) >= COUNT


async def test_the_offsets_behind_markers_and_aborted_records_are_committed_so_that_the_lag_is_0(
    bootstrap: str,
) -> None:
    source, target = await scene(bootstrap)
    group = unique("group")
    async with TransactionalSession(source, bootstrap_servers=bootstrap, group_id=group) as session:
        await copy(session, target)
        places = [TopicPartition(source, 0), TopicPartition(source, 1)]
        ends = await session.consumer.end_offsets(places)
        async with Producer(bootstrap) as producer:
            for place in places:
                await producer.send(source, b"one more", partition=place.partition)
        await copy(session, target, 2)
    assert await committed(bootstrap, group, source) == [ends[place] + 1 for place in places]
    assert len(values(await read_all(bootstrap, target))) == COUNT + 2


async def test_an_exception_aborts_the_batch_and_the_same_records_come_again(bootstrap: str) -> None:
    source, target = await scene(bootstrap, 1)
    group = unique("group")
    async with TransactionalSession(source, bootstrap_servers=bootstrap, group_id=group, max_records=COUNT) as session:
        batches = aiter(session)
        failed = await anext(batches)
        with pytest.raises(ZeroDivisionError):
            async with failed:
                await failed.send(target, b"never seen")
                raise ZeroDivisionError
        assert not failed.committed
        again = await anext(batches)
        assert list(again) == list(failed)
        async with again:
            await again.send_soon(target, b"%d" % len(again))
        assert again.committed
    assert values(await read_all(bootstrap, target)) == [b"%d" % COUNT]
    assert await committed(bootstrap, group, source, 1) == [again.next_offsets[TopicPartition(source, 0)].offset]


async def test_a_zombie_is_notified_and_cannot_take_the_id_back(bootstrap: str) -> None:
    source, target = await scene(bootstrap, 1)
    group, name = unique("group"), unique("id")
    async with TransactionalSession(
        source, bootstrap_servers=bootstrap, group_id=group, transactional_id=name
    ) as zombie:
        batch = await anext(aiter(zombie))
        with pytest.raises(ProducerFenced):
            async with batch:
                await batch.send(target, b"of the zombie")
                async with Producer(bootstrap, transactional_id=name) as successor:
                    async with successor.transaction() as transaction:
                        await transaction.send(target, b"of the successor")
        async with asyncio.timeout(PATIENCE_S):
            async with Producer(bootstrap, transactional_id=name) as successor, successor.transaction() as transaction:
                await transaction.send(target, b"once more")
    assert values(await read_all(bootstrap, target)) == [b"of the successor", b"once more"]
    assert await committed(bootstrap, group, source, 1) == [-1]


async def test_a_member_that_lost_its_partitions_commits_nothing_and_its_records_come_again(bootstrap: str) -> None:
    source, target = await scene(bootstrap, 1)
    group = unique("group")
    async with TransactionalSession(source, bootstrap_servers=bootstrap, group_id=group, max_records=COUNT) as session:
        batches = aiter(session)
        batch = await anext(batches)
        async with batch:
            await batch.send_soon(target, b"never seen")
            await remove_member(bootstrap, session.consumer.group_metadata())
        assert (batch.committed, batch.error is not None) == (False, True)
        again = await anext(batches)
        assert list(again) == list(batch)
        async with again:
            await again.send_soon(target, b"seen")
        assert again.committed
    assert values(await read_all(bootstrap, target)) == [b"seen"]


async def remove_member(bootstrap: str, member: ConsumerGroupMetadata) -> None:
    """Remove the member as an operator does (KIP-571)."""
    request = LeaveGroupRequest(
        group_id=member.group_id, member_id=member.member_id, members=[MemberIdentity(member_id=member.member_id)]
    )
    async with Admin(bootstrap) as admin:
        await admin._cluster.call_coordinator(
            CoordinatorKind.GROUP, member.group_id, LEAVE_GROUP, request, Deadline.after(10_000), lambda _: 0
        )


async def test_a_batch_that_is_left_out_is_named(bootstrap: str) -> None:
    source, _ = await scene(bootstrap, 1)
    async with TransactionalSession(source, bootstrap_servers=bootstrap, group_id=unique("group")) as session:
        batches = aiter(session)
        await anext(batches)
        with pytest.raises(InvalidState, match="neither committed nor aborted"):
            await anext(batches)


def test_options_that_contradict_a_session_are_refused() -> None:
    with pytest.raises(ConfigError, match="commits their offsets"):
        TransactionalSession("topic", group_id="group", consumer={"enable_auto_commit": True})
    with pytest.raises(ConfigError, match="commits their offsets"):
        TransactionalSession("topic", group_id="group", consumer={"delivery": "at_most_once"})
    with pytest.raises(ConfigError, match="needs the topics"):
        TransactionalSession(group_id="group")
