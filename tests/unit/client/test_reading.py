"""What an open consumer returns, in which order, and what its commits cover: with hooks, rebalances, errors and another
task that meddle.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from oncelog.client import ConfigError, Consumer, ConsumerOptions, DeserializationError, InvalidState, TopicPartition
from oncelog.client.groups.subscriptions import encode_assignment
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_request import FetchRequest
from oncelog.protocol.generated.fetch_response import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.protocol.generated.heartbeat_response import HeartbeatResponse
from oncelog.protocol.generated.leave_group_response import LeaveGroupResponse
from oncelog.protocol.generated.metadata_response import MetadataResponse, MetadataResponsePartition
from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse
from oncelog.protocol.generated.sync_group_response import SyncGroupResponse
from tests.fakes.logs import batch
from tests.fakes.scripted_answers import OF_A_MEMBER, TOPIC, metadata
from tests.fakes.virtual_loop import ScriptedBroker, pass_time, virtually

HOST = "host:1"
FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
Ends = Mapping[TopicPartition, int]
"""The log end offset of each partition."""


def reader(ends: Ends) -> ScriptedBroker:
    """A broker with these records, all committed; a Fetch at the end of the log has no response."""
    broker = ScriptedBroker(OF_A_MEMBER)

    def fetch(request: FetchRequest) -> FetchResponse | None:
        parts = []
        for asked in (each for topic in request.topics for each in topic.partitions):
            end = ends.get(TopicPartition(TOPIC, asked.partition), 0)
            if asked.fetch_offset < end:
                records = batch(end - asked.fetch_offset)
                records = memoryview(asked.fetch_offset.to_bytes(8, "big") + records[8:])
                parts.append(
                    PartitionData(asked.partition, high_watermark=end, last_stable_offset=end, records=records)
                )
        return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=parts)]) if parts else None

    def topics(request: Any) -> MetadataResponse:
        response = metadata(request)
        response.topics[0].partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=0) for index in range(2)
        ]
        return response

    broker.answers |= {
        ApiKey.METADATA: topics,
        ApiKey.FETCH: fetch,
        ApiKey.OFFSET_COMMIT: lambda _: OffsetCommitResponse(),
        ApiKey.LEAVE_GROUP: lambda _: LeaveGroupResponse(),
    }
    assigns(broker, FIRST)
    return broker


def assigns(broker: ScriptedBroker, *partitions: TopicPartition) -> None:
    """The group's next assignment of the only member."""
    broker.answers[ApiKey.SYNC_GROUP] = lambda _: SyncGroupResponse(assignment=encode_assignment(list(partitions)))


def rebalances(broker: ScriptedBroker, *partitions: TopicPartition) -> None:
    """The next heartbeat reports a rebalance, and that ends with this assignment."""
    assigns(broker, *partitions)

    def report(_: Any) -> HeartbeatResponse:
        broker.answers[ApiKey.HEARTBEAT] = lambda _: HeartbeatResponse()
        return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    broker.answers[ApiKey.HEARTBEAT] = report


def committed(broker: ScriptedBroker) -> list[int]:
    requests = [request for key, request in broker.seen if key is ApiKey.OFFSET_COMMIT]
    return [part.committed_offset for each in requests for topic in each.topics for part in topic.partitions]


def member(**options: Any) -> Consumer:
    return Consumer(TOPIC, **ConsumerOptions(bootstrap_servers=HOST, group_id="group", **options))


def now_s() -> float:
    return asyncio.get_running_loop().time()


async def ended(task: "asyncio.Task[Any]") -> BaseException:
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(outcome, BaseException)
    return outcome


# --- a batch that is being filled -------------------------------------------------------------------------------------


@virtually
async def test_what_on_revoke_commits_does_not_cover_a_batch_that_is_still_being_filled() -> None:
    broker = reader({FIRST: 3})
    consumer = member(on_revoke=lambda _: consumer.commit_sync())
    async with consumer:
        filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=20_000))
        await pass_time(2)
        rebalances(broker)
        await pass_time(10)
        assert consumer.assignment() == []
        assert committed(broker) == [0]
        assert isinstance(await ended(filling), asyncio.CancelledError)


@virtually
async def test_no_commit_at_the_close_covers_a_batch_whose_filling_was_interrupted() -> None:
    broker = reader({FIRST: 3})
    consumer = member(on_revoke=lambda _: consumer.commit_sync())

    async def read() -> None:
        async with consumer:
            await consumer.next_batch(max_wait_ms=20_000)

    reading = asyncio.ensure_future(read())
    await pass_time(5)
    assert isinstance(await ended(reading), asyncio.CancelledError)
    assert committed(broker) == []


@pytest.mark.parametrize("in_background", [False, True])
@virtually
async def test_a_commit_of_another_task_does_not_cover_a_batch_that_is_still_being_filled(in_background: bool) -> None:
    broker = reader({FIRST: 3})
    async with member() as consumer:
        filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=20_000))
        await pass_time(5)
        if in_background:
            consumer.commit_async()
            await pass_time(1)
        else:
            await consumer.commit_sync()
        assert committed(broker) == [0]
        got = await filling
        await consumer.commit_sync(got.next_offsets)
        assert committed(broker) == [0, len(got)] == [0, 3]


@virtually
async def test_a_batch_whose_filling_a_hook_ended_with_an_error_comes_with_the_next_one() -> None:
    broker = reader({FIRST: 3})
    assigned: list[object] = []

    def on_assign(partitions: object) -> None:
        assigned.append(partitions)
        if len(assigned) == 2:
            raise OSError("the store is down")

    strategy = ["cooperative-sticky"]
    async with member(on_assign=on_assign, partition_assignment_strategy=strategy) as consumer:
        filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=20_000))
        await pass_time(2)
        rebalances(broker, FIRST)
        with pytest.raises(OSError, match="the store is down"):
            await filling
        async with asyncio.timeout(10):
            assert [each.offset for each in await consumer.next_batch(max_wait_ms=1_000)] == [0, 1, 2]


@virtually
async def test_with_commits_before_records_are_returned_a_batch_is_committed_when_it_is_filled() -> None:
    broker = reader({FIRST: 3})
    async with member(commit_before_return=True) as consumer:
        filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=20_000))
        await pass_time(5)
        assert committed(broker) == []
        assert len(await filling) == 3
        assert committed(broker) == [3]


@virtually
async def test_a_batch_whose_commit_before_it_is_returned_failed_comes_again() -> None:
    broker = reader({FIRST: 3})
    broker.answers[ApiKey.OFFSET_COMMIT] = lambda _: None
    async with member(commit_before_return=True) as consumer:
        filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=1_000))
        await pass_time(5)
        assert isinstance(await ended(filling), asyncio.CancelledError)
        broker.answers[ApiKey.OFFSET_COMMIT] = lambda _: OffsetCommitResponse()
        assert [each.offset for each in await consumer.next_batch(max_wait_ms=1_000)] == [0, 1, 2]


@virtually
async def test_an_error_that_ended_the_filling_of_a_batch_is_raised_by_the_next_call() -> None:
    """Even if it does not come again."""
    broker = reader({FIRST: 3})
    usual = broker.answers[ApiKey.FETCH]

    def fetch(request: FetchRequest) -> FetchResponse | None:
        asked = {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}
        if asked == {0: 3, 1: 0}:
            part = PartitionData(partition_index=1, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            return FetchResponse(responses=[FetchableTopicResponse(topic=TOPIC, partitions=[part])])
        response: FetchResponse | None = usual(request)
        return response

    broker.answers[ApiKey.FETCH] = fetch
    async with Consumer(bootstrap_servers=HOST) as consumer:
        consumer.assign([FIRST, SECOND])
        consumer.seek(FIRST, 0)
        consumer.seek(SECOND, 0)
        assert len(await consumer.next_batch(max_wait_ms=1_000)) == 3
        with pytest.raises(ConfigError, match="topic-1"):
            async with asyncio.timeout(10):
                await consumer.next_batch(max_wait_ms=1_000)


# --- polls that find nothing, or what is there already ----------------------------------------------------------------

FEW = 100
"""Turns of the loop in which everything has arrived that does without a clock."""


@virtually
async def test_a_program_that_polls_on_with_no_timeout_gets_records() -> None:
    reader({FIRST: 3})
    async with Consumer(bootstrap_servers=HOST) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        assert any([await consumer.poll() for _ in range(FEW)])


@virtually
async def test_a_program_that_polls_on_at_the_end_of_the_log_lets_other_tasks_work() -> None:
    reader({FIRST: 3})
    async with Consumer(bootstrap_servers=HOST) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        assert len(await consumer.poll(1_000)) == 3
        other = asyncio.ensure_future(asyncio.sleep(0))
        for _ in range(FEW):
            assert not await consumer.poll()
        assert other.done()


@virtually
async def test_a_program_that_polls_on_before_a_record_without_a_value_lets_other_tasks_work() -> None:
    reader({FIRST: 1})

    def fail(value: bytes) -> object:
        raise ValueError(value)

    async with Consumer(bootstrap_servers=HOST, value_deserializer=fail) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        other: asyncio.Future[None] | None = None
        for _ in range(FEW):
            with pytest.raises(DeserializationError):
                await consumer.poll(1_000)
            other = other or asyncio.ensure_future(asyncio.sleep(0))
        assert other is not None and other.done()


async def read_ahead(consumer: Consumer) -> None:
    """The iterator has read all there is, and returned the first record."""
    async for _ in consumer:
        return


@virtually
async def test_a_member_that_polls_what_was_read_ahead_stays_a_member() -> None:
    broker = reader({FIRST: 10})
    async with member(max_poll_interval_ms=10_000) as consumer:
        await read_ahead(consumer)
        for _ in range(9):
            assert len(await consumer.poll(max_records=1)) == 1
            await pass_time(8)
        assert broker.count(ApiKey.LEAVE_GROUP) == 0


@virtually
async def test_a_member_that_polls_what_was_read_ahead_gives_up_what_the_group_takes_away() -> None:
    broker = reader({FIRST: 10})
    async with member() as consumer:
        await read_ahead(consumer)
        rebalances(broker, SECOND)
        await pass_time(10)
        assert await consumer.poll(1_000) == []
        assert consumer.assignment() == [SECOND]


# --- another task closes the consumer ---------------------------------------------------------------------------------


async def iterate(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


@pytest.mark.parametrize(
    "read", [iterate, lambda it: it.poll(60_000), lambda it: it.next_batch(max_wait_ms=60_000)], ids="ipb"
)
@pytest.mark.parametrize("silent", [ApiKey.FETCH, ApiKey.OFFSET_FETCH], ids=lambda each: each.name)
@virtually
async def test_a_reader_gets_an_error_at_once_when_another_task_closes_its_consumer(
    read: Callable[[Consumer], Any], silent: ApiKey
) -> None:
    broker = reader({FIRST: 3})
    broker.answers[silent] = lambda _: None
    consumer = await member().__aenter__()
    reading = asyncio.ensure_future(read(consumer))
    await pass_time(5)
    begun_s = now_s()
    await consumer.close()
    with pytest.raises(InvalidState, match="closed"):
        async with asyncio.timeout(100):
            await reading
    assert now_s() - begun_s < 0.001


@virtually
async def test_a_batch_that_is_being_filled_is_not_returned_by_a_consumer_that_another_task_closes() -> None:
    """Nothing could commit it any more."""
    reader({FIRST: 3})
    consumer = await member().__aenter__()
    filling = asyncio.ensure_future(consumer.next_batch(max_wait_ms=60_000))
    await pass_time(5)
    await consumer.close()
    with pytest.raises(InvalidState, match="closed"):
        await filling


# --- pause ------------------------------------------------------------------------------------------------------------


@virtually
async def test_the_iterator_returns_nothing_of_a_partition_from_its_pause_to_its_resumption_and_then_all() -> None:
    reader({FIRST: 5, SECOND: 3})
    got: list[tuple[int, int]] = []
    async with Consumer(bootstrap_servers=HOST) as consumer:
        consumer.assign([FIRST, SECOND])
        consumer.seek(FIRST, 0)
        consumer.seek(SECOND, 0)

        async def read() -> None:
            async for record in consumer:
                got.append((record.partition, record.offset))
                if got[-1] == (0, 1):
                    consumer.pause(FIRST)

        reading = asyncio.ensure_future(read())
        await pass_time(5)
        assert sorted(got) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
        assert await consumer.position(FIRST) == 2
        consumer.resume(FIRST)
        await pass_time(60)
        assert got[5:] == [(0, 2), (0, 3), (0, 4)]
        await ended(reading)
