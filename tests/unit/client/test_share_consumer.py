"""A member of a share group, before leaders that deliver and refuse as the test says."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from oncelog.client import (
    AcknowledgementFailed,
    CorruptBatch,
    DeserializationError,
    InvalidState,
    KafkaError,
    RequestTimedOut,
    ShareConsumer,
    ShareConsumerOptions,
    TopicPartition,
)
from oncelog.client.sharing.acknowledgements import ACCEPT, GAP, REJECT, RELEASE, RENEW
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_fetch_response import AcquiredRecords, PartitionData
from oncelog.protocol.records.batch import CRC_AT
from tests.fakes.scripted_answers import TOPIC
from tests.fakes.share_leader import FINAL_EPOCH, LEAVING_EPOCH, LOCK_MS, LONG_POLL_S, ShareLeader, records
from tests.fakes.virtual_loop import pass_time, virtually

PLACE, OTHER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
OPTIONS: ShareConsumerOptions = {"bootstrap_servers": "host:1", "group_id": "group"}
EXPLICIT: ShareConsumerOptions = {**OPTIONS, "share_acknowledgement_mode": "explicit"}
SOON_MS = 1_000
REQUEST_S = 30
"""request.timeout.ms, by default."""


def types(number: int, *offsets: int, partition: int = 0) -> list[tuple[int, int, int]]:
    return [(partition, offset, number) for offset in offsets]


def offsets(found: Sequence[Any]) -> list[int]:
    return [each.offset for each in found]


# --- acknowledgement --------------------------------------------------------------------------------------------------


@virtually
async def test_the_next_poll_accepts_what_was_returned_on_its_way_to_the_leader() -> None:
    leader = ShareLeader()
    leader.deliveries += [[records(0, 3)], [records(3, 1, delivery_count=2)]]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        assert consumer.acquisition_lock_timeout_ms is None
        assert offsets(await consumer.poll(SOON_MS)) == [0, 1, 2]
        assert (leader.said, consumer.acquisition_lock_timeout_ms) == ([], LOCK_MS)
        (record,) = await consumer.poll(SOON_MS)
        assert (record.offset, record.delivery_count) == (3, 2)
        assert leader.take_said() == types(ACCEPT, 0, 1, 2)
        assert leader.requests(ApiKey.SHARE_ACKNOWLEDGE) == []
        assert await consumer.poll(SOON_MS) == []
        assert leader.take_said() == types(ACCEPT, 3)


@virtually
async def test_what_is_read_ahead_is_not_accepted_before_it_is_returned() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 5)])
    async with ShareConsumer(TOPIC, **OPTIONS, max_poll_records=2) as consumer:
        assert offsets(await consumer.poll(SOON_MS)) == [0, 1]
        assert await consumer.commit_sync() == {PLACE: None}
        assert leader.take_said() == types(ACCEPT, 0, 1)
        assert offsets(await consumer.poll(SOON_MS)) == [2, 3]
        assert leader.said == []
    # And at the end nothing is: the session releases the records that it has acquired.
    assert leader.said == []
    assert leader.requests(ApiKey.SHARE_ACKNOWLEDGE)[-1].share_session_epoch == FINAL_EPOCH
    assert leader.member_epochs[-1] == LEAVING_EPOCH


@virtually
async def test_an_iterator_that_is_left_in_the_middle_has_accepted_what_it_yielded_and_the_rest_comes() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 4)])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        yielded = []
        async for record in consumer:
            yielded.append(record.offset)
            if len(yielded) == 2:
                break
        await consumer.commit_sync()
        assert leader.take_said() == types(ACCEPT, 0, 1)
        async for record in consumer:
            yielded.append(record.offset)
            if len(yielded) == 4:
                break
        assert yielded == [0, 1, 2, 3]
        assert await consumer.poll(SOON_MS) == []
        assert leader.take_said() == types(ACCEPT, 2, 3)


@virtually
async def test_with_explicit_acknowledgement_a_poll_is_refused_until_each_record_has_the_word_of_the_program() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 4)])
    async with ShareConsumer(TOPIC, **EXPLICIT) as consumer:
        found = await consumer.poll(SOON_MS)
        consumer.acknowledge(found[0])
        consumer.acknowledge(found[1], "release")
        consumer.acknowledge(found[2], "accept")
        consumer.acknowledge(found[2], "reject")
        with pytest.raises(InvalidState, match="1 records of the last poll are not acknowledged"):
            await consumer.poll()
        assert leader.said == []
        consumer.acknowledge(found[3])
        assert await consumer.poll(SOON_MS) == []
        assert leader.take_said() == [(0, 0, ACCEPT), (0, 1, RELEASE), (0, 2, REJECT), (0, 3, ACCEPT)]
        with pytest.raises(InvalidState, match="cannot be acknowledged"):
            consumer.acknowledge(found[0])


@virtually
async def test_a_close_sends_what_was_acknowledged_and_releases_the_rest() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 3)])
    async with ShareConsumer(TOPIC, **EXPLICIT) as consumer:
        found = await consumer.poll(SOON_MS)
        consumer.acknowledge(found[1])
    assert leader.take_said() == types(ACCEPT, 1)
    assert leader.epochs == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_implicit_acknowledgement_leaves_the_program_nothing_to_say() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        (record,) = await consumer.poll(SOON_MS)
        with pytest.raises(InvalidState, match="explicit"):
            consumer.acknowledge(record)


@virtually
async def test_each_partition_of_a_commit_has_its_outcome_and_the_hook_gets_all() -> None:
    leader = ShareLeader(partitions=2)
    leader.deliveries.append([records(0, 2), records(7, 1, partition=1)])
    leader.codes += [ErrorCode.INVALID_RECORD_STATE, 0]
    heard: list[tuple[TopicPartition, Sequence[int], KafkaError | None]] = []
    outcomes: list[Any] = []
    options: ShareConsumerOptions = {**OPTIONS, "on_acknowledged": lambda *each: heard.append(each)}
    async with ShareConsumer(TOPIC, **options) as consumer:
        await consumer.poll(SOON_MS)
        found = await consumer.commit_sync()
        assert isinstance(found[PLACE], AcknowledgementFailed)
        assert found[OTHER] is None
        assert await consumer.commit_sync() == {}
        leader.deliveries.append([records(8, 1, partition=1)])
        await consumer.poll(SOON_MS)
        consumer.commit_async(outcomes.append)
        await pass_time(LONG_POLL_S)
        assert outcomes == [{OTHER: None}]
    assert [(place, each, error and error.name) for place, each, error in heard] == [
        (PLACE, [0, 1], "INVALID_RECORD_STATE"),
        (OTHER, [7], None),
        (OTHER, [8], None),
    ]


@virtually
async def test_a_transient_error_of_a_partition_has_its_acknowledgements_sent_again() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    leader.codes += [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE]
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        assert await consumer.commit_sync() == {PLACE: None}
        assert leader.take_said() == types(ACCEPT, 0) * 3


@virtually
async def test_an_acknowledgement_is_tried_until_its_deadline() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    leader.codes += [ErrorCode.KAFKA_STORAGE_ERROR] * 1_000
    async with ShareConsumer(TOPIC, **OPTIONS, default_api_timeout_ms=SOON_MS) as consumer:
        await consumer.poll(SOON_MS)
        begun_s = asyncio.get_running_loop().time()
        (error,) = (await consumer.commit_sync()).values()
        assert error is not None
        assert error.name == "KAFKA_STORAGE_ERROR"
        assert asyncio.get_running_loop().time() - begun_s <= SOON_MS / 1_000


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_ID])
@virtually
async def test_after_the_leader_has_moved_nothing_is_sent_again_for_the_locks_are_gone(code: ErrorCode) -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    leader.codes.append(code)
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        await consumer.poll(SOON_MS)
        (error,) = (await consumer.commit_sync()).values()
        assert isinstance(error, AcknowledgementFailed)
        assert error.code is code
        assert leader.take_said() == types(ACCEPT, 0)


# --- renewal ----------------------------------------------------------------------------------------------------------


@virtually
async def test_a_renewed_record_is_returned_again_and_nothing_else_meanwhile() -> None:
    leader = ShareLeader()
    leader.deliveries += [[records(0, 2)], [records(2, 1)]]
    async with ShareConsumer(TOPIC, **EXPLICIT) as consumer:
        first, second = await consumer.poll(SOON_MS)
        consumer.acknowledge(first, "renew")
        consumer.acknowledge(second)
        assert await consumer.poll(SOON_MS) == [first]
        assert leader.take_said() == [(0, 0, RENEW), (0, 1, ACCEPT)]
        assert leader.requests(ApiKey.SHARE_ACKNOWLEDGE)[-1].is_renew_ack
        consumer.acknowledge(first)
        assert offsets(await consumer.poll(SOON_MS)) == [2]
        assert leader.take_said() == types(ACCEPT, 0)


@virtually
async def test_a_record_whose_lock_could_not_be_renewed_is_not_this_members_any_more() -> None:
    leader = ShareLeader()
    leader.deliveries += [[records(0, 1)], [records(1, 1)]]
    leader.codes.append(ErrorCode.INVALID_RECORD_STATE)
    failed: list[Any] = []
    options: ShareConsumerOptions = {
        **EXPLICIT,
        "on_acknowledged": lambda _, each, error: failed.append((each, error.name)),
    }
    async with ShareConsumer(TOPIC, **options) as consumer:
        (record,) = await consumer.poll(SOON_MS)
        consumer.acknowledge(record, "renew")
        assert offsets(await consumer.poll(SOON_MS)) == [1]
        assert failed == [([0], "INVALID_RECORD_STATE")]
        with pytest.raises(InvalidState, match="cannot be acknowledged"):
            consumer.acknowledge(record)


@virtually
async def test_a_poll_with_no_time_returns_a_renewed_record_once_the_leader_has_responded() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 1)])
    async with ShareConsumer(TOPIC, **EXPLICIT) as consumer:
        (record,) = await consumer.poll(SOON_MS)
        consumer.acknowledge(record, "renew")
        assert await consumer.poll() == []
        await pass_time(LONG_POLL_S)
        assert await consumer.poll() == [record]


# --- what cannot be returned ------------------------------------------------------------------------------------------


@virtually
async def test_gaps_are_acknowledged_even_if_nothing_else_came() -> None:
    leader = ShareLeader()
    gaps = PartitionData(partition_index=0, records=b"", acquired_records=[AcquiredRecords(0, 2, 1)])
    leader.deliveries += [[gaps], [records(3, 1)]]
    async with ShareConsumer(TOPIC, **EXPLICIT) as consumer:
        assert offsets(await consumer.poll(SOON_MS)) == [3]
        assert leader.take_said() == types(GAP, 0, 1, 2)


@virtually
async def test_a_damaged_batch_is_rejected_and_raised_after_what_came_before_it() -> None:
    leader = ShareLeader()
    whole, damaged, next_one = (records(first, 2).records for first in (0, 2, 4))
    broken = bytearray(damaged)
    broken[CRC_AT] ^= 1
    data = PartitionData(
        partition_index=0, records=bytes(whole + broken + next_one), acquired_records=[AcquiredRecords(0, 5, 1)]
    )
    leader.deliveries.append([data])
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        assert offsets(await consumer.poll(SOON_MS)) == [0, 1]
        with pytest.raises(CorruptBatch, match="at offset 2 fails its checksum"):
            await consumer.poll(SOON_MS)
        assert offsets(await consumer.poll(SOON_MS)) == [4, 5]
        await consumer.commit_sync()
        assert sorted(leader.take_said()) == types(ACCEPT, 0, 1) + types(REJECT, 2, 3) + types(ACCEPT, 4, 5)


def number(data: bytes) -> int:
    if data == b"1":
        raise ValueError("one is no number")
    return int(data)


@pytest.mark.parametrize("said", [None, "reject"])
@virtually
async def test_what_cannot_be_deserialized_is_released_unless_the_program_says_otherwise(said: Any) -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 3)])
    options: ShareConsumerOptions[bytes, int] = {
        "bootstrap_servers": "host:1",
        "group_id": "group",
        "share_acknowledgement_mode": "explicit",
        "value_deserializer": number,
    }
    async with ShareConsumer(TOPIC, **options) as consumer:
        (first,) = await consumer.poll(SOON_MS)
        assert first.value == 0
        consumer.acknowledge(first)
        with pytest.raises(DeserializationError, match=r"acknowledge\(error\.record") as caught:
            await consumer.poll(SOON_MS)
        if said is not None:
            consumer.acknowledge(caught.value.record, said)
        (last,) = await consumer.poll(SOON_MS)
        assert last.value == 2
        consumer.acknowledge(last)
        await consumer.commit_sync()
        assert sorted(leader.take_said()) == [
            (0, 0, ACCEPT),
            (0, 1, RELEASE if said is None else REJECT),
            (0, 2, ACCEPT),
        ]


# --- the end ----------------------------------------------------------------------------------------------------------


@virtually
async def test_a_close_ends_by_its_deadline_and_each_commit_has_an_outcome() -> None:
    leader = ShareLeader()
    leader.deliveries.append([records(0, 2)])
    outcomes: list[Any] = []
    consumer = ShareConsumer(TOPIC, **EXPLICIT)
    async with consumer:
        first, second = await consumer.poll(SOON_MS)
        leader.is_silent = True
        consumer.acknowledge(first)
        consumer.commit_async(outcomes.append)
        await pass_time(1)
        consumer.acknowledge(second)
        consumer.commit_async(outcomes.append)
        leader.broker.silence()
        begun_s = asyncio.get_running_loop().time()
        await consumer.close(timeout_ms=SOON_MS)
        assert asyncio.get_running_loop().time() - begun_s <= 2 * SOON_MS / 1_000
    assert [type(outcome[PLACE]) for outcome in outcomes] == [RequestTimedOut, RequestTimedOut]
    assert asyncio.all_tasks() == {asyncio.current_task()}


@virtually
async def test_a_poll_that_waits_fails_at_the_close_and_another_one_because_of_the_first() -> None:
    ShareLeader()
    async with ShareConsumer(TOPIC, **OPTIONS) as consumer:
        waiting = asyncio.ensure_future(consumer.poll(REQUEST_S * 1_000))
        await pass_time(1)
        with pytest.raises(InvalidState, match="another task is polling"):
            await consumer.poll()
    with pytest.raises(InvalidState, match="the consumer is closed"):
        await waiting
    with pytest.raises(InvalidState, match="closed"):
        await consumer.poll()
