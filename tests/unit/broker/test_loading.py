"""A start with more in the coordinators' logs than is replayed at once: until all of it is, requests have to wait."""

from collections.abc import Iterator

import pytest

from oncelog.broker.assembly.broker import StartError
from oncelog.broker.coordinator import loading
from oncelog.broker.coordinator.loading import RECORDS_AT_ONCE, RECORDS_IN_A_SLICE, CoordinatorLoading
from oncelog.broker.log.values import AppendOrigin
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_transactions_request import DescribeTransactionsRequest
from oncelog.protocol.generated.find_coordinator_request import FindCoordinatorRequest
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.list_transactions_request import ListTransactionsRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.protocol.records.batch import encode_batch
from oncelog.protocol.records.record import Record
from oncelog.protocol.topics import TRANSACTION_STATE
from tests.clients.producer import TOPIC, Producer, broker_with_topic
from tests.fakes.broker import VirtualBroker
from tests.fakes.virtual_time import VirtualTime


def batches(sizes: Iterator[int], done: list[int]) -> Iterator[int]:
    for size in sizes:
        done.append(size)
        yield size


def test_a_turn_replays_no_more_than_a_slice() -> None:
    time, done = VirtualTime(), list[int]()
    count = RECORDS_AT_ONCE + 10 * RECORDS_IN_A_SLICE
    replay = CoordinatorLoading(time)
    for sizes in ([1] * 7, [1] * (count - 7)):  # two partitions share it
        replay.add(batches(iter(sizes), done))
    replay.begin()
    assert (len(done), replay.is_done) == (RECORDS_AT_ONCE, False)
    slices = []
    while not replay.is_done:
        before = len(done)
        turn, time._turn = time._turn, []
        for function in turn:
            function()
        slices.append(len(done) - before)
    assert max(slices) <= RECORDS_IN_A_SLICE
    assert sum(done) == count


def test_a_partition_without_its_next_piece_lets_the_others_pass_and_continues_when_it_comes() -> None:
    def waits(piece: Completion[None], done: list[int]) -> Iterator[int | Completion[None]]:
        yield from batches(iter([1, 2]), done)
        yield piece
        yield from batches(iter([3]), done)

    time, done, piece = VirtualTime(), list[int](), Completion[None]()
    replay = CoordinatorLoading(time)
    replay.add(waits(piece, done))
    replay.add(batches(iter([10]), done))
    time.settle()
    assert (done, replay.is_done) == ([1, 2, 10], False)
    piece.complete(None)
    time.settle()
    assert (done, replay.is_done) == ([1, 2, 10, 3], True)


def nobody_can_have_written(broker: VirtualBroker, topic: str, partition: int) -> None:
    """A record that is whole, and means nothing to a coordinator."""
    batch = memoryview(encode_batch([Record(0, 1, None, b"a flipped bit")]))
    log = broker.broker.topics.partition(topic, partition)
    log.append(batch, wall_ms=broker.time.wall_ms(), origin=AppendOrigin.COORDINATOR)
    broker.time.settle()


def test_damage_that_a_start_finds_at_once_ends_it() -> None:
    broker = broker_with_topic()
    Producer(broker, "open").init()
    nobody_can_have_written(broker, TRANSACTION_STATE, 7)
    with pytest.raises(StartError, match=r"__transaction_state cannot be replayed: .*oncelog log repair"):
        broker.killed()


def test_damage_that_a_start_finds_later_stops_the_broker_and_the_partition_never_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = broker_with_topic()
    Producer(broker, "open").init()
    partition = broker.broker.transactions._runtime.partition_for("open")
    nobody_can_have_written(broker, TRANSACTION_STATE, partition)
    monkeypatch.setattr(loading, "RECORDS_AT_ONCE", 1)
    monkeypatch.setattr(loading, "RECORDS_IN_A_SLICE", 1)
    starting = broker.killed()
    (failure,) = starting.disk_failures
    assert "__transaction_state cannot be replayed" in str(failure) and "oncelog log repair" in str(failure)
    described = DescribeTransactionsRequest(transactional_ids=["open"])
    error = starting.ask(described, 0).transaction_states[0].error_code
    assert error == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_damage_in_a_partition_that_is_gained_later_is_reported_and_the_others_serve() -> None:
    broker = broker_with_topic()
    runtime = broker.broker.transactions._runtime
    lost, other = Producer(broker, "open").init(), Producer(broker, "other").init()
    partition = runtime.partition_for("open")
    assert partition != runtime.partition_for("other")
    runtime.lose(partition)
    nobody_can_have_written(broker, TRANSACTION_STATE, partition)
    runtime.gain(partition, 1)
    broker.time.settle()
    assert broker.disk_failures == []
    (line,) = broker.lines
    assert "__transaction_state cannot be replayed" in line and "oncelog log repair" in line
    assert lost.add(0) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert other.add(0) == [ErrorCode.NONE]


def test_until_all_is_replayed_every_coordinator_says_so_and_then_all_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = broker_with_topic()
    opened = Producer(broker, "open").init()
    opened.add(0)
    opened.produce(0)
    broker.ask(FindCoordinatorRequest(key="group"), 1)
    offset = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    commit = OffsetCommitRequest(group_id="group", topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=[offset])])
    assert broker.ask(commit, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
    monkeypatch.setattr(loading, "RECORDS_AT_ONCE", 1)
    monkeypatch.setattr(loading, "RECORDS_IN_A_SLICE", 1)
    monkeypatch.setattr(VirtualTime, "settle", lambda self: None)
    starting = broker.killed()
    waits = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    described = DescribeTransactionsRequest(transactional_ids=["open"])
    assert starting.ask(described, 0).transaction_states[0].error_code == waits
    assert starting.ask(ListTransactionsRequest(), 0).error_code == waits
    assert starting.ask(ListGroupsRequest(), 4).error_code == waits
    assert starting.ask(HeartbeatRequest(group_id="group", member_id="nobody"), 4).error_code == waits
    fetch = OffsetFetchRequest(group_id="group", topics=[OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])])
    assert starting.ask(fetch, 7).error_code == waits
    monkeypatch.undo()
    starting.time.settle()
    assert starting.ask(described, 0).transaction_states[0].transaction_state == "Ongoing"
    assert starting.ask(ListGroupsRequest(), 4).error_code == ErrorCode.NONE
    assert starting.ask(fetch, 7).topics[0].partitions[0].committed_offset == 7
