"""What a batch holds when the group takes partitions away while it is being filled."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from oncelog.client.batches import fill_batch
from oncelog.client.errors import CorruptBatch
from oncelog.client.reading import Reading
from oncelog.client.records import Record, TopicPartition

KEPT, LOST = TopicPartition("topic", 0), TopicPartition("topic", 1)
PATIENCE_MS = 60_000


def record(place: TopicPartition, offset: int) -> Record:
    return Record(*place, offset, 0, None, b"")


class Positions:
    def __init__(self) -> None:
        self.ahead: list[Record] = []

    def consumed(self) -> dict[TopicPartition, object]:
        return {}

    def put_back(self, records: list[Record]) -> None:
        self.ahead = records


class ScriptedReading:
    """Each poll is one step of a script, and stands for what the group did meanwhile."""

    def __init__(self, *script: "Callable[[ScriptedReading], list[Record]]") -> None:
        self.partitions: dict[TopicPartition, object] = {KEPT: object(), LOST: object()}
        self.fetcher = self
        self.positions = Positions()
        self.change_count = 0
        self.is_settled = True
        self._script = iter(script)

    async def poll(self, timeout_ms: float, limit: int) -> list[Record]:
        return next(self._script)(self)

    def revoke(self, place: TopicPartition) -> list[Record]:
        self.partitions = {each: state for each, state in self.partitions.items() if each != place}
        self.change_count += 1
        self.is_settled = True
        return []

    def assign_anew(self, place: TopicPartition) -> list[Record]:
        self.partitions = {**self.partitions, place: object()}
        self.change_count += 1
        return []

    def begin_to_revoke(self) -> list[Record]:
        self.is_settled = False
        return []


async def filled(reading: ScriptedReading, max_wait_ms: float) -> list[Record]:
    return list(await fill_batch(cast(Reading, reading), 2, max_wait_ms))


async def test_records_of_a_partition_that_was_revoked_meanwhile_are_left_to_its_next_owner() -> None:
    reading = ScriptedReading(
        lambda _: [record(LOST, 0)],
        lambda group: group.revoke(LOST),
        lambda _: [record(KEPT, 5), record(KEPT, 6)],
    )
    assert await filled(reading, PATIENCE_MS) == [record(KEPT, 5), record(KEPT, 6)]


async def test_records_of_a_partition_that_is_kept_stay_in_the_batch() -> None:
    reading = ScriptedReading(
        lambda _: [record(KEPT, 0)],
        lambda group: [*group.revoke(LOST), record(KEPT, 1)],
    )
    assert await filled(reading, PATIENCE_MS) == [record(KEPT, 0), record(KEPT, 1)]


async def test_records_of_a_partition_that_was_revoked_and_assigned_again_come_from_the_committed_offset() -> None:
    reading = ScriptedReading(
        lambda _: [record(LOST, 1)],
        lambda group: group.revoke(LOST) + group.assign_anew(LOST),
        lambda _: [record(LOST, 0), record(LOST, 1)],
    )
    assert await filled(reading, PATIENCE_MS) == [record(LOST, 0), record(LOST, 1)]


async def test_a_batch_is_not_returned_in_the_middle_of_a_revocation() -> None:
    reading = ScriptedReading(
        lambda group: [record(LOST, 0), *group.begin_to_revoke()],
        lambda group: group.revoke(LOST),
        lambda _: [record(KEPT, 0)],
    )
    assert await filled(reading, 0) == [record(KEPT, 0)]


def fails(error: BaseException) -> Callable[[ScriptedReading], list[Record]]:
    def fail(_: ScriptedReading) -> list[Record]:
        raise error

    return fail


async def test_what_was_read_before_an_error_is_returned_before_it() -> None:
    reading = ScriptedReading(lambda _: [record(KEPT, 0)], fails(CorruptBatch()), fails(CorruptBatch()))
    assert await filled(reading, PATIENCE_MS) == [record(KEPT, 0)]
    with pytest.raises(CorruptBatch):
        await filled(reading, PATIENCE_MS)


async def test_what_was_read_before_a_cancellation_is_read_again_where_it_is_still_owned() -> None:
    def revoke_and_cancel(group: ScriptedReading) -> list[Record]:
        group.revoke(LOST)
        raise asyncio.CancelledError

    reading = ScriptedReading(lambda _: [record(LOST, 0)], lambda _: [], revoke_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await filled(reading, PATIENCE_MS)
    assert reading.positions.ahead == []
    reading = ScriptedReading(lambda _: [record(KEPT, 0)], revoke_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await filled(reading, PATIENCE_MS)
    assert reading.positions.ahead == [record(KEPT, 0)]
