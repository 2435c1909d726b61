"""Windows between many partitions, members and a disk that refuses: brought about exactly, one write at a time."""

import pytest

from oncelog.broker.faults.rule import Action, Point, Selector
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode as E
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.testing.memory_disk import PowerCut
from tests.clients.group_members import GROUP, Member, form
from tests.clients.producer import TOPIC
from tests.unit.faults.support import LEVELS, V1, committed, error_of, is_settled, opened, plant, state_of
from tests.unit.faults.test_windows import fetched_offset, of_state

BOTH = pytest.mark.parametrize("level", LEVELS)


def test_window_16_offsets_that_were_sent_in_a_generation_and_come_after_it_are_refused() -> None:
    broker, writer = opened(V1)
    member = Member(broker)
    form(member)
    identity = {**writer.identity, "group_id": GROUP}
    assert broker.ask(AddOffsetsToTxnRequest(**identity), 3).error_code == E.NONE
    late = plant(broker, Point.REQUEST, Action.HOLD, Selector(ApiKey.TXN_OFFSET_COMMIT))
    data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    reply = broker.send(
        TxnOffsetCommitRequest(
            **identity,
            generation_id=member.generation_id,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])],
        ),
        3,
    )
    form(member, Member(broker, "another"))
    broker.faults.release(late)
    broker.time.settle()
    assert reply.message.topics[0].partitions[0].error_code == E.ILLEGAL_GENERATION
    assert writer.finish(commit=False) is E.NONE
    assert (committed(broker), fetched_offset(broker)) == ([], (E.NONE, -1))


@pytest.mark.parametrize(
    ("count", "point", "nth"),
    [
        pytest.param(1_000, Point.MARKER_WRITTEN, 500, marks=pytest.mark.slow),
        (50, Point.MARKER, 1),
        (50, Point.MARKER, 50),
        (50, Point.MARKER_WRITTEN, 1),
        (50, Point.MARKER_WRITTEN, 50),
    ],
)
def test_window_18_a_transaction_over_many_partitions_is_whole_whichever_marker_a_crash_stops_at(
    count: int, point: Point, nth: int
) -> None:
    broker, writer = opened(V1)
    wide = CreatableTopic(name="wide", num_partitions=count, replication_factor=1)
    broker.ask(CreateTopicsRequest(topics=[wide]), 4)
    assert set(writer.add(*range(count), topic="wide")) == {E.NONE}
    plant(broker, point, Action.CRASH, Selector(topic="wide"), nth=nth)
    with pytest.raises(PowerCut):
        writer.send_end()
    again = broker.killed()
    assert state_of(again) == "CompleteCommit"
    assert (committed(again, 0), committed(again, 1)) == (["first"], ["first"])
    assert all(again.broker.topics.partition("wide", number).log_end_offset >= 1 for number in range(count))


@BOTH
def test_window_32_a_commit_for_which_there_is_no_room_has_not_happened_and_can_be_sent_again(level: int) -> None:
    broker, writer = opened(level)
    full = plant(broker, Point.APPEND, Action.NO_ROOM, of_state("PrepareCommit"))
    assert error_of(writer.send_end()).retriable
    assert full.is_consumed
    assert (state_of(broker), committed(broker), broker.disk_failures) == ("Ongoing", [], [])
    assert writer.finish() is E.NONE
    assert (committed(broker, 0), committed(broker, 1)) == (["first"], ["first"])


@BOTH
@pytest.mark.parametrize("of", [Selector(topic=TOPIC, partition=1), of_state("CompleteCommit")])
def test_window_32_a_marker_or_complete_for_which_there_is_no_room_follows_when_there_is(
    level: int, of: Selector
) -> None:
    broker, writer = opened(level)
    full = plant(broker, Point.APPEND, Action.NO_ROOM, of, times=5)
    assert writer.finish() is E.NONE
    assert state_of(broker) == "PrepareCommit"
    broker.let_pass(10_000)
    assert full.is_consumed
    assert (state_of(broker), is_settled(broker)) == ("CompleteCommit", True)
    assert (committed(broker, 0), committed(broker, 1)) == (["first"], ["first"])


@BOTH
def test_window_32_a_record_for_which_there_is_no_room_is_not_acknowledged_and_its_retry_is_written_once(
    level: int,
) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPEND, Action.NO_ROOM, Selector(topic=TOPIC, partition=0))
    assert writer.write("second", sequence=1) is E.KAFKA_STORAGE_ERROR
    assert writer.write("second", sequence=1) is E.NONE
    assert writer.finish() is E.NONE
    assert committed(broker) == ["first", "second"]


@BOTH
@pytest.mark.parametrize("state", ["PrepareCommit", "CompleteCommit"])
def test_window_33_a_disk_that_fails_at_a_transition_stops_the_broker_and_the_next_start_decides_by_what_is_there(
    level: int, state: str
) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPEND, Action.IO_ERROR, of_state(state))
    reply = writer.send_end()
    assert len(broker.disk_failures) == 1
    is_promised = reply.is_there and error_of(reply) is E.NONE
    again = broker.killed()
    is_committed = state == "CompleteCommit"
    assert is_promised <= is_committed
    # What was open may have lost what was answered and not synced yet.
    assert (state_of(again), committed(again)) == (
        ("CompleteCommit", ["first"]) if is_committed else ("CompleteAbort", [])
    )
