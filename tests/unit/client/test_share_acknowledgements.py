"""What a program says of its records is what is sent, once; and what it did not say is not."""

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncelog.client.sharing.acknowledgements import (
    ACCEPT,
    GAP,
    RELEASE,
    RENEW,
    TYPES,
    Acknowledgements,
    Origin,
    ranges_of,
)
from oncelog.client.sharing.in_flight import InFlight
from oncelog.client.values.errors import AcknowledgementFailed, InvalidState
from oncelog.client.values.records import AcknowledgeType, Record, ShareRecord, TopicPartition
from oncelog.client.values.waiting import Deadline
from tests.support.samples import examples

PLACES = (TopicPartition("topic", 0), TopicPartition("topic", 1))
ORIGINS = tuple(Origin(node_id, uuid.UUID(int=1), place) for place in PLACES for node_id in (1, 2))
Key = tuple[Origin, int]
offsets = st.integers(0, 6)


def record(place: TopicPartition, offset: int, count: int = 1) -> ShareRecord[Any, Any]:
    return ShareRecord(place.topic, place.partition, offset, 0, None, None, (), count)


@given(st.dictionaries(st.integers(0, 40), st.sampled_from((GAP, *TYPES.values()))))
def test_ranges_say_what_was_said_of_each_offset_and_no_broker_refuses_them(types: Mapping[int, int]) -> None:
    """Apache Kafka refuses ranges that are not in ascending order, and more types than one that are not one for each
    offset."""
    ranges = ranges_of(types)
    said: dict[int, int] = {}
    last = -1
    for each in ranges:
        assert last < each.first_offset <= each.last_offset
        span = range(each.first_offset, each.last_offset + 1)
        assert len(each.types) in (1, len(span))
        said |= dict(zip(span, each.types * (len(span) if len(each.types) == 1 else 1), strict=True))
        last = each.last_offset
    assert said == types


def test_records_of_one_fate_are_one_range_with_one_type() -> None:
    assert ranges_of(dict.fromkeys(range(10, 510), ACCEPT)) == [(10, 509, [ACCEPT])]


class Records(RuleBasedStateMachine):
    """The fate of each record, as a program would write it down: what it said, None for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.in_flight = InFlight()
        self.mine: dict[Key, int | None] = {}
        self.renewing: set[Key] = set()
        self.renewed: list[Key] = []
        self.sent: list[Acknowledgements] = []

    def teardown(self) -> None:
        self.loop.close()

    @rule(origin=st.sampled_from(ORIGINS), offset=offsets)
    def deliver(self, origin: Origin, offset: int) -> None:
        if (origin, offset) not in self.renewing and (origin, offset) not in self.renewed:  # their locks hold
            self.in_flight.add(origin, record(origin.topic_partition, offset))
            self.mine.setdefault((origin, offset), None)

    @rule(place=st.sampled_from(PLACES), offset=offsets, kind=st.sampled_from([*TYPES]))
    def say(self, place: TopicPartition, offset: int, kind: AcknowledgeType) -> None:
        """Acknowledge a record. For a partition under two leaders, either delivery may be meant, and the test
        follows.
        """
        keys = [each for each in self.mine if each[0].topic_partition == place and each[1] == offset]
        if not keys:
            with pytest.raises(InvalidState, match="cannot be acknowledged"):
                self.in_flight.acknowledge(record(place, offset), kind)
            return
        self.in_flight.acknowledge(record(place, offset), kind)
        said = [each for each in keys if self._type(each) == TYPES[kind]]
        assert said
        self.mine |= dict.fromkeys(said, TYPES[kind])

    def _type(self, key: Key) -> int | None:
        parts = [each for each in self.in_flight._places[key[0].topic_partition] if each.origin == key[0]]
        return parts[0].types.get(key[1])

    @rule()
    def accept_all(self) -> None:
        self.in_flight.accept_all()
        self.mine = dict.fromkeys(self.mine, ACCEPT)

    @rule()
    def send(self) -> None:
        async def take() -> list[Acknowledgements]:
            return self.in_flight.take(Deadline.after(0))

        taken = self.loop.run_until_complete(take())
        said = {(each.origin, offset): number for each in taken for offset, number in each.types.items()}
        assert said == {key: number for key, number in self.mine.items() if number is not None}
        self.renewing |= {key for key, number in said.items() if number == RENEW}
        self.mine = {key: None for key, number in self.mine.items() if number is None}
        self.sent += taken

    @precondition(lambda self: self.sent)
    @rule(is_renewed=st.booleans())
    def respond(self, is_renewed: bool) -> None:
        done = self.sent.pop(0)
        self.in_flight.on_outcome(done, None if is_renewed else AcknowledgementFailed())
        back = [(done.origin, offset) for offset in sorted(done.types) if (done.origin, offset) in self.renewing]
        self.renewing -= set(back)
        self.renewed += back if is_renewed else []

    @rule(limit=st.integers(1, 3))
    def take_renewed(self, limit: int) -> None:
        returned = self.in_flight.take_renewed(limit)
        expected, self.renewed = self.renewed[:limit], self.renewed[limit:]
        assert [(each.topic_partition, each.offset) for each in returned] == [
            (origin.topic_partition, offset) for origin, offset in expected
        ]
        self.mine |= dict.fromkeys(expected, None)

    @invariant()
    def it_knows_what_is_left_to_say_and_to_return(self) -> None:
        assert self.in_flight.unacknowledged_count == sum(number is None for number in self.mine.values())
        assert self.in_flight.has_renewed == bool(self.renewed)
        assert self.in_flight.has_renewals == bool(self.renewed or self.renewing)


TestRecords = Records.TestCase
"""Each record is sent with the last word of the program, once, and renewed ones come back."""
TestRecords.settings = settings(max_examples=examples(50), stateful_step_count=30)


async def test_a_record_that_could_not_be_read_is_released_unless_the_program_says_otherwise() -> None:
    in_flight, (origin, *_) = InFlight(), ORIGINS
    kind: AcknowledgeType
    for offset, kind in ((1, "reject"), (2, "accept")):
        in_flight.add_failed(origin, offset)
        in_flight.acknowledge(Record("topic", 0, offset, 0, None, b"bytes"), kind)
    in_flight.add_failed(origin, 3)
    with pytest.raises(InvalidState):
        # There is no object to return again.
        in_flight.acknowledge(Record("topic", 0, 3, 0, None, b"bytes"), "renew")
    assert in_flight.unacknowledged_count == 0
    (taken,) = in_flight.take(Deadline.after(0))
    assert taken.types == {1: TYPES["reject"], 2: ACCEPT, 3: RELEASE}
    with pytest.raises(InvalidState):
        in_flight.acknowledge(Record("topic", 0, 3, 0, None, b"bytes"), "reject")
