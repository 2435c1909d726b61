"""A member in a rebalance: it stays in its group while the program processes records, and an assignment takes effect
although the first attempt to apply it fails."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from oncelog.client import Consumer, ConsumerOptions, RequestTimedOut, TopicPartition
from oncelog.client.groups.subscriptions import encode_assignment
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.heartbeat_response import HeartbeatResponse
from oncelog.protocol.generated.join_group_response import JoinGroupResponse
from oncelog.protocol.generated.leave_group_response import LeaveGroupResponse
from oncelog.protocol.generated.sync_group_response import SyncGroupResponse
from tests.fakes.scripted_answers import OF_A_MEMBER, TOPIC, metadata, sync
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

PLACE = TopicPartition(TOPIC, 0)
OPTIONS = ConsumerOptions(bootstrap_servers="host:1", group_id="group", auto_offset_reset="earliest")
COOPERATIVE = ConsumerOptions(partition_assignment_strategy=["cooperative-sticky"])
HEARTBEAT_S = 3.0
"""heartbeat.interval.ms, by default."""
POLL_S = 300.0
"""max.poll.interval.ms, by default."""
REQUEST_S = 30.0
"""request.timeout.ms, by default."""


def broker_of_a_group() -> ScriptedBroker:
    return ScriptedBroker({**OF_A_MEMBER, ApiKey.LEAVE_GROUP: lambda _: LeaveGroupResponse()})


def now_s() -> float:
    return asyncio.get_running_loop().time()


def rebalances(broker: ScriptedBroker, *, until_joined: bool = True) -> list[float]:
    """The group rebalances from now on; returns when each heartbeat comes."""
    came_at_s: list[float] = []
    joins = broker.answers[ApiKey.JOIN_GROUP]

    def heartbeat(_: Any) -> HeartbeatResponse:
        came_at_s.append(now_s())
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    def join(request: Any) -> JoinGroupResponse:
        broker.answers[ApiKey.HEARTBEAT] = lambda _: HeartbeatResponse()
        return joins(request)

    broker.answers[ApiKey.HEARTBEAT] = heartbeat
    if until_joined:
        broker.answers[ApiKey.JOIN_GROUP] = join
    return came_at_s


async def read_until(consumer: Consumer, done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():
            await consumer.poll(100)


# --- staying in the group ---------------------------------------------------------------------------------------------


@virtually
async def test_a_member_that_processes_records_while_its_group_rebalances_sends_heartbeats_until_it_joins() -> None:
    broker = broker_of_a_group()
    async with Consumer(TOPIC, **OPTIONS) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        begun_s, came_at_s = now_s(), rebalances(broker)
        await pass_time(200)
        assert len(came_at_s) >= int(200 / HEARTBEAT_S) - 1
        assert max(after - before for before, after in zip([begun_s, *came_at_s], came_at_s, strict=False)) < 4
        await read_until(consumer, lambda: consumer.assignment_count == 2)
        assert broker.count(ApiKey.LEAVE_GROUP) == 0


@virtually
async def test_a_member_sends_no_heartbeats_while_it_waits_for_its_group_to_join() -> None:
    """The coordinator keeps it, since its JoinGroup waits there; a heartbeat of the old generation says nothing."""
    broker = broker_of_a_group()
    async with Consumer(TOPIC, **OPTIONS) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        came_at_s = rebalances(broker)
        broker.answers[ApiKey.JOIN_GROUP] = lambda _: None
        await pass_time(HEARTBEAT_S * 2)
        assert came_at_s
        await consumer.poll(100)
        came_at_s.clear()
        await consumer.poll(40_000)
        assert broker.count(ApiKey.JOIN_GROUP) == 2
        assert not came_at_s


@virtually
async def test_a_member_sends_heartbeats_while_it_waits_for_its_assignment() -> None:
    """Its session runs from the moment that the group has joined."""
    broker = broker_of_a_group()
    broker.answers[ApiKey.SYNC_GROUP] = lambda _: None
    async with Consumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(int(HEARTBEAT_S * 3_000) + 500)
        assert broker.count(ApiKey.HEARTBEAT) == 3
        assert broker.count(ApiKey.SYNC_GROUP) == 1


@virtually
async def test_a_member_that_does_not_poll_in_time_in_a_rebalance_leaves_its_group_and_joins_again_once() -> None:
    """A LeaveGroup that is answered late is no reason to join twice."""
    broker = broker_of_a_group()
    lost: list[TopicPartition] = []
    async with Consumer(TOPIC, **OPTIONS, on_lost=lost.extend) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        rebalances(broker)
        broker.answers[ApiKey.LEAVE_GROUP] = lambda _: None
        await pass_time(POLL_S + HEARTBEAT_S + 1)
        assert broker.count(ApiKey.LEAVE_GROUP) == 1
        await read_until(consumer, lambda: consumer.assignment_count == 2)
        assert lost == [PLACE]
        await consumer.poll(int(REQUEST_S * 2_000))
        assert broker.count(ApiKey.JOIN_GROUP) == 2
        broker.answers[ApiKey.LEAVE_GROUP] = lambda _: LeaveGroupResponse()


@virtually
async def test_a_consumer_that_is_closed_while_it_leaves_for_its_silence_leaves_nothing_running() -> None:
    broker = broker_of_a_group()
    async with Consumer(TOPIC, **OPTIONS) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        broker.answers[ApiKey.LEAVE_GROUP] = lambda _: None
        await pass_time(POLL_S + HEARTBEAT_S + 1)
        assert broker.count(ApiKey.LEAVE_GROUP) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}


# --- applying an assignment -------------------------------------------------------------------------------------------


@virtually
async def test_an_assignment_whose_partitions_cannot_be_looked_up_at_first_is_applied_by_a_later_poll() -> None:
    broker = broker_of_a_group()
    async with Consumer(TOPIC, **OPTIONS, default_api_timeout_ms=5_000) as consumer:

        def sync_and_fall_silent(request: Any) -> SyncGroupResponse:
            broker.answers[ApiKey.METADATA] = lambda _: None
            consumer._cluster.metadata.forget_leaders([TOPIC])
            return sync(request)

        broker.answers[ApiKey.SYNC_GROUP] = sync_and_fall_silent
        with pytest.raises(RequestTimedOut):
            await consumer.poll(10_000)
        assert consumer.assignment() == []
        broker.answers[ApiKey.METADATA] = metadata
        await consumer.poll(5_000)
        assert consumer.assignment() == [PLACE]
        assert broker.count(ApiKey.JOIN_GROUP) == 1


@virtually
async def test_what_a_cooperative_member_must_give_up_is_given_up_by_the_poll_whose_on_revoke_returns() -> None:
    broker = broker_of_a_group()
    revoked: list[Sequence[TopicPartition]] = []

    def on_revoke(partitions: Sequence[TopicPartition]) -> None:
        revoked.append(partitions)
        if len(revoked) == 1:
            raise OSError

    async with Consumer(TOPIC, **OPTIONS, **COOPERATIVE, on_revoke=on_revoke) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        rebalances(broker)
        broker.answers[ApiKey.SYNC_GROUP] = lambda _: SyncGroupResponse(assignment=encode_assignment([]))
        with pytest.raises(OSError):
            await read_until(consumer, lambda: not consumer.assignment())
        assert consumer.assignment() == [PLACE]
        await read_until(consumer, lambda: not consumer.assignment())
        assert revoked == [[PLACE], [PLACE]]


@virtually
async def test_a_cooperative_member_that_gave_something_up_joins_again_although_it_cannot_look_up_what_is_new() -> None:
    """Only then can the leader give away what this member had."""
    broker = broker_of_a_group()
    async with Consumer(TOPIC, **OPTIONS, **COOPERATIVE, default_api_timeout_ms=5_000) as consumer:
        await read_until(consumer, lambda: bool(consumer.assignment()))
        rebalances(broker)

        def moved(_: Any) -> SyncGroupResponse:
            return SyncGroupResponse(assignment=encode_assignment([TopicPartition(TOPIC, 1)]))

        broker.answers[ApiKey.SYNC_GROUP] = moved
        with pytest.raises(RequestTimedOut):
            await read_until(consumer, lambda: False)
        assert consumer.assignment() == []
        joined = broker.count(ApiKey.JOIN_GROUP)

        def with_two_partitions(request: Any) -> Any:
            found = metadata(request)
            (first,) = found.topics[0].partitions
            second = type(first)(partition_index=1, leader_id=0)
            found.topics[0].partitions = [first, second]
            return found

        broker.answers[ApiKey.METADATA] = with_two_partitions
        await read_until(consumer, lambda: broker.count(ApiKey.JOIN_GROUP) > joined)
