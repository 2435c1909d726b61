"""Sessions of a share consumer with the leaders of its partitions: what it asks of each, and what is said again."""

import asyncio
from typing import Any

import pytest

from oncelog.client import (
    AcknowledgementFailed,
    ConnectionLost,
    FatalError,
    KafkaError,
    ShareConsumer,
    ShareConsumerOptions,
)
from oncelog.client.sharing.acknowledgements import ACCEPT
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from oncelog.protocol.generated.share_fetch_response import PartitionData
from tests.fakes.scripted_answers import TOPIC
from tests.fakes.share_leader import HEARTBEAT_S, LONG_POLL_S, ShareLeader, records
from tests.fakes.virtual_loop import pass_time, virtually
from tests.unit.client.test_share_consumer import (
    EXPLICIT,
    OPTIONS,
    PLACE,
    SOON_MS,
    offsets,
    types,
)


@virtually
async def test_a_session_names_its_partitions_once() -> None:
    leader = ShareLeader(partitions=2)
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(3 * SOON_MS)
        assert [each.share_session_epoch for each in leader.fetches[:3]] == [0, 1, 2]
        named = [
            [part.partition_index for topic in each.topics for part in topic.partitions] for each in leader.fetches
        ]
        assert named == [[0, 1]] + [[]] * (len(named) - 1)


@virtually
async def test_after_a_session_has_ended_its_acknowledgements_fail_and_a_new_one_continues() -> None:
    leader = ShareLeader()
    leader.deliveries += [[records(0, 1)], [records(0, 1, delivery_count=2)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        leader.epochs.clear()
        (error,) = (await consumer.commit_sync()).values()
        assert isinstance(error, AcknowledgementFailed)
        assert error.code is ErrorCode.SHARE_SESSION_NOT_FOUND
        (again,) = await consumer.poll(SOON_MS)
        assert again.delivery_count == 2
        assert leader.fetches[-1].share_session_epoch == 0
        assert await consumer.commit_sync() == {PLACE: None}


@pytest.mark.parametrize("by", ["commit", "poll"])
@virtually
async def test_what_was_delivered_in_a_session_is_not_acknowledged_in_the_next_one(by: str) -> None:
    """A leader refuses acknowledgements in the request that begins a session, and would do so after it: the locks have
    ended."""
    leader = ShareLeader()
    leader.deliveries.append([records(0, 2)])
    failed: list[Any] = []
    options: ShareConsumerOptions = {
        **EXPLICIT,
        "on_acknowledged": lambda _, each, error: failed.append((each, error.name)),
    }
    async with ShareConsumer(TOPIC, **options) as consumer:
        first, second = await consumer.poll(SOON_MS)
        leader.epochs.clear()
        consumer.acknowledge(first)
        await consumer.commit_sync()
        consumer.acknowledge(second)
        await (consumer.commit_sync() if by == "commit" else consumer.poll(SOON_MS))
        assert failed == [([0], "SHARE_SESSION_NOT_FOUND"), ([1], "SHARE_SESSION_NOT_FOUND")]
        assert leader.said == []
        assert 0 not in [each.share_session_epoch for each in leader.requests(ApiKey.SHARE_ACKNOWLEDGE)]
        leader.deliveries.append([records(0, 1)])
        assert offsets(await consumer.poll(SOON_MS)) == [0]


@virtually
async def test_what_no_request_for_records_will_carry_goes_by_itself() -> None:
    """The node that has delivered a record leads nothing of this member any more."""
    leader = ShareLeader(partitions=2, nodes=2)
    leader.deliveries += [[], [records(0, 1, partition=1)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        assert [each.partition for each in await consumer.poll(SOON_MS)] == [1]
        leader.assigned = [0]
        await pass_time(HEARTBEAT_S)
        leader.asked.clear()
        await consumer.poll(SOON_MS)
        assert leader.take_said() == types(ACCEPT, 0, partition=1)
        assert leader.asked.count("other") == len(leader.requests(ApiKey.SHARE_ACKNOWLEDGE)) == 1


@virtually
async def test_a_lost_connection_fails_what_was_on_its_way_and_the_next_session_continues() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        leader.is_silent = True
        committing = asyncio.ensure_future(consumer.commit_sync())
        await pass_time(1)
        for each in leader.broker.connections:
            each.close()
        (error,) = (await committing).values()
        assert isinstance(error, ConnectionLost)
        leader.is_silent = False
        leader.deliveries.append([records(0, 1, delivery_count=2)])
        (again,) = await consumer.poll(SOON_MS)
        assert again.delivery_count == 2
        assert leader.fetches[-1].share_session_epoch == 0


@virtually
async def test_a_leader_without_room_for_a_session_is_asked_again_and_not_at_once() -> None:
    leader = ShareLeader()
    leader.fetch_errors += [ErrorCode.SHARE_SESSION_LIMIT_REACHED] * 3
    leader.deliveries.append([records(0, 1)])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        begun_s = asyncio.get_running_loop().time()
        assert offsets(await consumer.poll(SOON_MS)) == [0]
        assert 0.3 <= asyncio.get_running_loop().time() - begun_s < 0.4


@virtually
async def test_a_partition_without_its_leader_is_asked_for_again_when_the_leader_is_known() -> None:
    leader = ShareLeader(partitions=2)
    moved = PartitionData(partition_index=1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    leader.deliveries += [[moved], [records(0, 1, partition=1)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        before = leader.broker.count(ApiKey.METADATA)
        assert offsets(await consumer.poll(SOON_MS)) == [0]
        assert leader.broker.count(ApiKey.METADATA) > before


@virtually
async def test_a_lasting_error_of_a_partition_is_raised_once() -> None:
    leader = ShareLeader()
    refused = PartitionData(partition_index=0, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    leader.deliveries += [[refused], [records(0, 1)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
            await consumer.poll(SOON_MS)
        assert offsets(await consumer.poll(SOON_MS)) == [0]


@virtually
async def test_records_are_asked_for_while_a_poll_wants_some_and_no_longer() -> None:
    """Their locks would run while the program is at work on others."""
    leader = ShareLeader()
    leader.deliveries += [[records(0, 1)], [records(1, 1)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        await pass_time(10)
        assert len(leader.deliveries) == 1


@pytest.mark.parametrize(("mode", "at_a_time"), [("record_limit", 1), ("batch_optimized", 2)])
@virtually
async def test_with_a_limit_of_records_one_leader_is_asked_at_a_time_each_in_turn(mode: Any, at_a_time: int) -> None:
    leader = ShareLeader(partitions=2, nodes=2)
    async with ShareConsumer(TOPIC, **OPTIONS, share_acquire_mode=mode, max_poll_records=7) as consumer:
        for _ in range(3):
            await consumer.poll(int(LONG_POLL_S * 250))
        assert len(leader.fetches) == at_a_time
        assert {(each.max_records, each.batch_size) for each in leader.fetches} == {(7, 7)}
        assert {each.share_acquire_mode for each in leader.fetches} == {mode == "record_limit"}
        await consumer.poll(2 * SOON_MS)
        assert leader.asked[:4] == ["host", "other", "host", "other"]
        assert leader.requests(ApiKey.SHARE_ACKNOWLEDGE) == []


@virtually
async def test_a_broker_that_cannot_limit_records_is_named_instead_of_asked() -> None:
    leader = ShareLeader()
    leader.broker.answers[ApiKey.API_VERSIONS] = lambda _: ApiVersionsResponse(
        api_keys=[ApiVersion(key, 0, 1 if key is ApiKey.SHARE_FETCH else 12) for key in leader.broker.answers]
    )
    async with ShareConsumer(TOPIC, **OPTIONS, share_acquire_mode="record_limit") as consumer:
        with pytest.raises(FatalError, match="cannot limit the records"):
            await consumer.poll(SOON_MS)
    assert leader.fetches == []
