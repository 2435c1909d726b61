"""What becomes durable together: an addition with its first batch; PREPARE with all markers and COMPLETE."""

from itertools import count

import pytest

from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.fetch_request import FetchPartition, FetchRequest, FetchTopic
from oncelog.testing.memory_disk import PowerCut
from tests.clients.producer import TOPIC, Producer, broker_with_topic, log_of
from tests.fakes.broker import Reply, VirtualBroker
from tests.unit.transaction.harness import P0, P1, Coordinator

E = ErrorCode
VERSIONS = pytest.mark.parametrize("version", [1, 2])
PRODUCE = {1: 11, 2: 12}
END = {1: 3, 2: 5}


def begun(version: int, *overrides: str) -> tuple[VirtualBroker, Producer]:
    """A record in each of two partitions, in an open transaction."""
    broker = broker_with_topic(*overrides)
    producer = Producer(broker).init()
    for partition in (0, 1):
        if version == 1:
            producer.add(partition)
        assert producer.produce(partition, version=PRODUCE[version]) is E.NONE
    return broker, producer


def state_of(broker: VirtualBroker) -> TransactionState:
    (status,) = broker.broker.transactions.current()
    return status.metadata.state


def fetch_both(broker: VirtualBroker, from_offset: int) -> Reply:
    """Start a read_committed fetch that waits for both partitions."""
    wanted = [FetchPartition(partition=index, fetch_offset=from_offset, partition_max_bytes=100) for index in (0, 1)]
    topic = FetchTopic(topic=TOPIC, partitions=wanted)
    request = FetchRequest(max_wait_ms=10_000, min_bytes=1, isolation_level=1, session_epoch=-1, topics=[topic])
    return broker.start(request, 11)


@VERSIONS
@pytest.mark.parametrize("policy", ["fsync", "os", "memory"])
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_is_one_round_and_the_next_transaction_begins_at_once(policy: str, version: int, commit: bool) -> None:
    broker, producer = begun(version, f"oncelog.flush.policy={policy}")
    rounds = broker.broker.rounds.round_count
    assert producer.end(commit, END[version]) is E.NONE
    assert broker.broker.rounds.round_count == rounds + 1, "with what was answered before"
    assert state_of(broker) is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    assert [log_of(broker, index).last_stable_offset for index in (0, 1)] == [2, 2]
    sequence = 1 if version == 1 else 0
    if version == 1:
        assert producer.add(0) == [E.NONE]
    assert producer.produce(0, sequence=sequence, version=PRODUCE[version]) is E.NONE
    is_ahead = policy == "fsync" and version == 1
    assert broker.broker.rounds.round_count == rounds + (3 if version == 1 else 2) - is_ahead


@VERSIONS
def test_one_fetch_sees_a_commit_in_all_partitions_or_in_none(version: int) -> None:
    broker, producer = begun(version)
    waiting = fetch_both(broker, 0)
    broker.time.settle()
    assert not waiting.is_there
    producer.end(True, END[version])
    (topic,) = waiting.message.responses
    assert [(data.high_watermark, data.last_stable_offset) for data in topic.partitions] == [(2, 2), (2, 2)]


@pytest.mark.parametrize("isolation_level", [0, 1])
@VERSIONS
def test_one_waiting_fetch_of_a_session_sees_a_commit_in_all_partitions_or_in_none(
    version: int, isolation_level: int
) -> None:
    broker, producer = begun(version)
    at = 1 - isolation_level
    wanted = [FetchPartition(partition=index, fetch_offset=at, partition_max_bytes=1_000) for index in (0, 1)]
    limits = {"min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": isolation_level}
    topic = FetchTopic(topic=TOPIC, partitions=wanted)
    opened = broker.ask(FetchRequest(max_wait_ms=0, session_epoch=0, topics=[topic], **limits), 11)
    again = FetchRequest(max_wait_ms=10_000, session_id=opened.session_id, session_epoch=1, topics=[], **limits)
    waiting = broker.start(again, 11)
    broker.time.settle()
    assert not waiting.is_there
    producer.end(True, END[version])
    shown = [data.partition_index for topic in waiting.message.responses for data in topic.partitions]
    assert sorted(shown) == [0, 1]


@pytest.mark.sampled(7)
@VERSIONS
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_wherever_the_power_goes_an_end_is_there_with_all_its_markers_or_not_at_all(
    version: int, commit: bool, seed: int
) -> None:
    for operations in count():
        broker, producer = begun(version, "oncelog.journal.file.bytes=4096")
        broker.disk.operations_left = operations
        try:
            producer.end(commit, END[version])
        except (PowerCut, AssertionError):
            assert broker.disk.operations_left < 0
        is_cut = broker.disk.operations_left < 0
        left = broker.crashed(seed * 1_000 + operations)
        ends = [log_of(left, index).log_end_offset for index in (0, 1)]
        state = state_of(left)
        assert state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT), "torn is aborted"
        assert state is TransactionState.COMPLETE_ABORT or (commit and ends == [2, 2])
        assert [log_of(left, index).last_stable_offset for index in (0, 1)] == ends
        if not is_cut:
            assert operations > 0
            assert (state is TransactionState.COMPLETE_COMMIT, ends) == (commit, [2, 2])
            return


@pytest.mark.parametrize("seed", range(3))
def test_a_batch_survives_no_power_cut_that_the_addition_of_its_partition_does_not(seed: int) -> None:
    for operations in count():
        broker = broker_with_topic()
        producer = Producer(broker).init()
        broker.disk.operations_left = operations
        try:
            producer.produce(0, version=12)
        except (PowerCut, AssertionError):
            assert broker.disk.operations_left < 0
        is_cut = broker.disk.operations_left < 0
        left = broker.crashed(seed * 1_000 + operations)
        has_batch_and_marker = log_of(left).log_end_offset == 2
        assert has_batch_and_marker is (state_of(left) is TransactionState.COMPLETE_ABORT)
        assert has_batch_and_marker or log_of(left).log_end_offset == 0
        if not is_cut:
            assert has_batch_and_marker
            return


@pytest.mark.parametrize(
    "rule",
    [
        Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC, partition=1)),
        Rule(Point.MARKER_WRITTEN, Action.HOLD, Selector(topic=TOPIC, partition=1)),
    ],
    ids=lambda rule: rule.point.value,
)
@VERSIONS
def test_where_a_fault_holds_a_marker_the_states_are_there_to_be_seen(rule: Rule, version: int) -> None:
    broker, producer = begun(version)
    held = broker.faults.plant(rule)
    assert producer.end(True, END[version]) is E.NONE
    assert state_of(broker) is TransactionState.PREPARE_COMMIT
    assert log_of(broker, 0).last_stable_offset == 2
    broker.faults.remove(held)
    broker.time.settle()
    assert state_of(broker) is TransactionState.COMPLETE_COMMIT


def test_the_events_are_prepare_then_the_markers_then_complete() -> None:
    broker, producer = begun(1)
    before = broker.faults.events.last_number
    producer.end(True)
    events = broker.faults.events.since(before)
    assert [(event["event"], event.get("state") or event.get("partition")) for event in events] == [
        ("transition", "PrepareCommit"),
        ("marker", f"{TOPIC}-0"),
        ("marker", f"{TOPIC}-1"),
        ("transition", "CompleteCommit"),
    ]


@VERSIONS
def test_a_marker_that_cannot_be_appended_is_sent_once_prepare_is_durable(version: int) -> None:
    """The other partition has its marker meanwhile, and COMPLETE waits."""
    coordinator = Coordinator()
    pair = coordinator.begun(P0, P1, version=version)
    coordinator.log.flushes_by_itself = False
    coordinator.markers.appends = True
    coordinator.markers.errors = [E.NONE, E.KAFKA_STORAGE_ERROR]
    ending = coordinator.end(pair, True, version=version)
    assert len(coordinator.markers.sent) == 1
    coordinator.time.advance(1_000)
    assert len(coordinator.markers.sent) == 1, "not before PREPARE is durable, however long that takes"
    coordinator.log.flush()
    assert ending.is_answered
    assert coordinator.logged()[-1] == "PrepareCommit"
    coordinator.time.advance(20)
    assert list(coordinator.markers.sent[-1].partitions) == [P1]
    coordinator.log.flush()
    assert coordinator.logged()[-1] == "CompleteCommit"


@VERSIONS
def test_while_the_round_is_not_durable_nothing_is_answered_and_the_id_is_pending(version: int) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0, version=version)
    coordinator.log.flushes_by_itself = False
    coordinator.markers.appends = True
    ending = coordinator.end(pair, True, version=version)
    assert coordinator.logged()[-2:] == ["PrepareCommit", "CompleteCommit"]
    assert not ending.is_answered
    again = coordinator.end(pair, True, version=version)
    coordinator.log.flush()
    assert ending.is_answered
    assert again.error is E.CONCURRENT_TRANSACTIONS
    assert coordinator.transitions.states[-2:] == ["PrepareCommit", "CompleteCommit"]
    coordinator.add(ending.pair, P0, version=version)
    assert coordinator.logged()[-1] == "Ongoing"
