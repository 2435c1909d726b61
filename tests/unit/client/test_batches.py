"""What a batch holds when the group takes partitions away while it is being filled."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from oncelog.client.consuming.batches import fill_batch
from oncelog.client.consuming.partition_state import PartitionState
from oncelog.client.consuming.positions import Positions
from oncelog.client.consuming.reading import Reading
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.values.errors import CorruptBatch, KafkaError
from oncelog.client.values.records import Record, TopicPartition

KEPT, LOST = TopicPartition("topic", 0), TopicPartition("topic", 1)
PATIENCE_MS = 60_000
pytestmark = pytest.mark.interpreted


def record(place: TopicPartition, offset: int) -> Record:
    return Record(*place, offset, 0, None, b"")


class ScriptedReading:
    """Each turn is one step of a script, and stands for what the group did meanwhile."""

    def __init__(self, *script: "Callable[[ScriptedReading], list[Record]]") -> None:
        self.partitions = {each: PartitionState(each) for each in (KEPT, LOST)}
        self.positions = Positions(cast(Any, None), None, cast(Any, self), ConsumerSettings())
        self.is_settled = True
        self._script = iter(script)
        self._next_error: KafkaError | None = None

    async def read_ahead(self, timeout_ms: float, least: int, most: int) -> None:
        if self._next_error is not None:
            raise self._next_error
        self.positions.add_ahead(next(self._script)(self))

    def take_ahead(self, limit: int) -> list[Record]:
        assert self.is_settled
        return self.positions.take_ahead(limit)

    async def before_return(self, records: list[Record]) -> list[Record]:
        return records

    def raise_next(self, error: KafkaError) -> None:
        self._next_error = error

    def revoke(self, place: TopicPartition) -> list[Record]:
        self.positions.forget([place])
        self.is_settled = True
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
        lambda group: group.revoke(LOST),
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
    reading = ScriptedReading(lambda _: [record(KEPT, 0)], fails(CorruptBatch()))
    assert await filled(reading, PATIENCE_MS) == [record(KEPT, 0)]
    with pytest.raises(CorruptBatch):
        await filled(reading, PATIENCE_MS)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), OSError("of a hook")], ids=lambda each: type(each).__name__
)
async def test_what_was_read_before_an_interrupt_stays_ahead_where_it_is_still_owned(error: BaseException) -> None:
    def revoke_and_fail(group: ScriptedReading) -> list[Record]:
        group.revoke(LOST)
        raise error

    for place, left in ((LOST, []), (KEPT, [record(KEPT, 0)])):
        reading = ScriptedReading(lambda _, place=place: [record(place, 0)], revoke_and_fail)
        with pytest.raises(type(error)):
            await filled(reading, PATIENCE_MS)
        assert reading.positions.take_ahead(10) == left
