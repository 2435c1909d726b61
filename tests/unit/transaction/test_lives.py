"""A partition of `__transaction_state` is lost and gained in the middle of transactions; another serves all the while.

The next owner of the partition continues from the log: what was prepared is completed, what is open stays open and
counts on its timeout, and markers of the life before are refused where the next one has written.
"""

from collections.abc import Callable

import pytest

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.partitioning import coordinator_partition
from tests.clients.producer import TOPIC, TRANSACTIONAL_ID, Producer, broker_with_topic, log_of
from tests.fakes.coordinator_log import MemoryCoordinatorLog, MemoryTopic
from tests.unit.transaction.harness import ID, P0, P1, TIMEOUT_MS, Coordinator, outcomes

E = ErrorCode
PARTITIONS = 2
LOST = coordinator_partition(ID, PARTITIONS)
OTHER = next(name for name in map(str, range(100)) if coordinator_partition(name, PARTITIONS) != LOST)
"""An id in the other partition."""


def two_partitions() -> Coordinator:
    return Coordinator(topic=MemoryTopic(*(MemoryCoordinatorLog() for _ in range(PARTITIONS))))


def log_of_id(coordinator: Coordinator) -> MemoryCoordinatorLog:
    return coordinator.topic.logs[LOST]


def known(coordinator: Coordinator) -> TransactionMetadata:
    found = coordinator.runtime.shard(ID).get(ID)
    assert found is not None
    return found


def gain(coordinator: Coordinator, epoch: int) -> None:
    coordinator.runtime.gain(LOST, epoch)
    coordinator.time.settle()


def transact_in_the_other(coordinator: Coordinator) -> None:
    """A whole transaction, without a hiccup."""
    pair = coordinator.init(transactional_id=OTHER).pair
    assert coordinator.add(pair, P1, transactional_id=OTHER).error is E.NONE
    assert coordinator.end(pair, True, transactional_id=OTHER).error is E.NONE
    for sent in coordinator.markers.waiting:
        if sent.marker.producer_id == pair.producer_id:
            sent.answer.complete([E.NONE])
    state = coordinator.runtime.shard(OTHER).get(OTHER)
    assert state is not None and state.state.kafka_name == "CompleteCommit"


def test_while_a_partition_is_lost_its_ids_are_refused_and_the_other_one_serves() -> None:
    coordinator = two_partitions()
    pair = coordinator.begun(P0)
    coordinator.runtime.lose(LOST)
    asked: list[Callable[[], ErrorCode]] = [
        lambda: coordinator.init().error,
        lambda: coordinator.add(pair, P1).error,
        lambda: coordinator.end(pair, True).error,
        lambda: coordinator.verify(pair, P0),
    ]
    assert [ask() for ask in asked] == [E.NOT_COORDINATOR] * len(asked)
    transact_in_the_other(coordinator)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [0, 2])
def test_an_open_transaction_continues_in_the_next_life(version: int, commit: bool) -> None:
    coordinator = two_partitions()
    coordinator.level = 2 if version else 1
    pair = coordinator.begun(P0, version=version)
    for epoch in (1, 2):
        coordinator.runtime.lose(LOST)
        transact_in_the_other(coordinator)
        gain(coordinator, epoch)
        assert coordinator.verify(pair, P0) is E.NONE
    assert coordinator.add(pair, P1, version=version).error is E.NONE
    coordinator.markers.sent.clear()
    assert coordinator.end(pair, commit, version=version).error is E.NONE
    (sent,) = coordinator.markers.sent
    assert (sent.marker.coordinator_epoch, sent.marker.committed, list(sent.partitions)) == (2, commit, [P0, P1])
    assert known(coordinator).state.kafka_name == ("CompleteCommit" if commit else "CompleteAbort")


def test_a_lost_partition_has_no_timers_and_the_next_life_counts_from_the_start_of_the_transaction() -> None:
    coordinator = two_partitions()
    coordinator.begun(P0)
    coordinator.runtime.lose(LOST)
    assert coordinator.time.timer_count == 0
    coordinator.time.advance(TIMEOUT_MS - 1_000)
    gain(coordinator, 1)
    coordinator.time.advance(999)
    assert known(coordinator).state.kafka_name == "Ongoing"
    coordinator.time.advance(1)
    assert known(coordinator).state.kafka_name == "CompleteAbort"


def test_a_transaction_that_times_out_while_the_partition_has_no_leader_is_aborted_by_the_next_life() -> None:
    coordinator = two_partitions()
    coordinator.begun(P0)
    coordinator.runtime.lose(LOST)
    coordinator.time.advance(3 * TIMEOUT_MS)
    assert coordinator.markers.sent == []
    gain(coordinator, 1)
    assert known(coordinator).state.kafka_name == "CompleteAbort"


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("answers_late", [True, False])
def test_what_is_prepared_is_completed_once_by_the_next_life(answers_late: bool, commit: bool) -> None:
    coordinator = two_partitions()
    coordinator.markers.holds = True
    pair = coordinator.begun(P0, P1)
    assert coordinator.end(pair, commit).error is E.NONE
    coordinator.runtime.lose(LOST)
    if not answers_late:  # the markers of the life before are durable, and no client waits for them
        coordinator.markers.release()
    transact_in_the_other(coordinator)
    gain(coordinator, 1)
    for asked in (coordinator.init(), coordinator.end(pair, commit), coordinator.add(pair, P1)):
        assert asked.error is E.CONCURRENT_TRANSACTIONS
    ours = [sent for sent in coordinator.markers.sent if sent.marker.producer_id == pair.producer_id]
    assert [sent.marker.coordinator_epoch for sent in ours] == [0, 1]
    assert outcomes(ours) == {commit}
    while coordinator.markers.waiting:
        coordinator.markers.release()
    coordinator.time.advance(1_000)
    records = [record for record in log_of_id(coordinator).records if record.key]
    assert len(records) == 4, "Empty, Ongoing, Prepare, Complete"
    assert coordinator.end(pair, commit).error is E.NONE


def test_markers_that_a_partition_refused_are_not_sent_again_by_a_life_that_is_over() -> None:
    coordinator = two_partitions()
    coordinator.markers.holds = True
    pair = coordinator.begun(P0)
    coordinator.end(pair, True)
    coordinator.markers.release(E.NOT_LEADER_OR_FOLLOWER)
    coordinator.runtime.lose(LOST)
    coordinator.time.advance(60_000)
    assert len(coordinator.markers.sent) == 1


def test_complete_that_could_not_be_logged_is_logged_by_the_next_life_alone() -> None:
    coordinator = two_partitions()
    coordinator.markers.holds = True
    pair = coordinator.begun(P0)
    coordinator.end(pair, True)
    log_of_id(coordinator).flushes_by_itself = False
    coordinator.markers.release()  # COMPLETE is in the log, and not durable
    coordinator.runtime.lose(LOST)
    coordinator.time.advance(60_000)
    assert coordinator.time.timer_count == 0
    log_of_id(coordinator).flush()
    gain(coordinator, 1)
    assert known(coordinator).state.kafka_name == "CompleteCommit"
    assert len(coordinator.markers.sent) == 1


def test_a_decision_that_is_not_durable_when_the_partition_goes_is_answered_at_once_and_found_in_the_log() -> None:
    coordinator = two_partitions()
    pair = coordinator.begun(P0)
    log_of_id(coordinator).flushes_by_itself = False
    ended = coordinator.end(pair, True)
    assert not ended.is_answered
    coordinator.runtime.lose(LOST)
    assert ended.error is E.NOT_COORDINATOR
    log_of_id(coordinator).flush()
    assert coordinator.markers.sent == []
    log_of_id(coordinator).flushes_by_itself = True
    gain(coordinator, 1)
    assert outcomes(coordinator.markers.sent) == {True}
    assert coordinator.end(pair, True).error is E.NONE


def test_a_waiter_for_a_producer_id_has_to_look_up_the_coordinator_when_the_partition_is_lost() -> None:
    coordinator = two_partitions()
    coordinator.ids.holds = True
    asked = coordinator.init()
    coordinator.runtime.lose(LOST)
    coordinator.ids.release()
    assert asked.error is E.NOT_COORDINATOR
    gain(coordinator, 1)
    coordinator.ids.holds = False
    assert coordinator.init().pair.producer_epoch == 0


def test_no_id_expires_in_a_partition_that_is_lost() -> None:
    coordinator = two_partitions()
    coordinator.init()
    coordinator.runtime.lose(LOST)
    coordinator.time.advance(10 * 3_600_000)
    coordinator.core.step()
    assert len(log_of_id(coordinator).records) == 1
    assert coordinator.core.list_all().result() == []


# --- in a whole broker ------------------------------------------------------------------------------------------------


@pytest.mark.interpreted
def test_a_marker_of_the_life_before_is_refused_where_the_next_one_has_written() -> None:
    broker = broker_with_topic("transaction.state.log.num.partitions=1")
    runtime = broker.broker.transactions._runtime
    first = broker.faults.plant(Rule(Point.MARKER, Action.HOLD, Selector(topic=TOPIC), times=1))
    producer = Producer(broker).init()
    producer.add(0)
    producer.produce(0)
    assert producer.end(True) is E.NONE
    runtime.lose(0)
    broker.let_pass(1_000)
    runtime.gain(0, 1)
    broker.let_pass(1_000)
    log = log_of(broker)
    assert log.last_stable_offset == log.log_end_offset == 2, "the next life has ended it"
    # The next transaction of the same producer and epoch, which a late marker of the one before would end.
    assert producer.add(0) == [E.NONE]
    assert producer.produce(0, sequence=1) is E.NONE
    answers: list[ErrorCode] = []
    write = broker.broker.markers.write_marker

    def heard(*arguments: object) -> object:
        written = write(*arguments)  # type: ignore[arg-type]
        written.then(lambda done: answers.append(done.result()))
        return written

    broker.broker.markers.write_marker = heard  # type: ignore[method-assign, assignment]
    assert broker.faults.release(first) == 1
    broker.let_pass(1_000)
    assert answers == [E.TRANSACTION_COORDINATOR_FENCED]
    assert log.last_stable_offset == 2 < log.log_end_offset, "it is still open"
    assert producer.end(False) is E.NONE
    broker.let_pass(100)
    assert log.last_stable_offset == log.log_end_offset


@pytest.mark.parametrize("turns", range(14))
@pytest.mark.parametrize("version", [3, 5])
def test_at_whatever_step_of_an_end_the_partition_goes_and_comes_the_transaction_ends_once(
    turns: int, version: int
) -> None:
    broker = broker_with_topic(
        "transaction.state.log.num.partitions=2", f"oncelog.feature.transaction.version={1 if version == 3 else 2}"
    )
    runtime = broker.broker.transactions._runtime
    lost = coordinator_partition(TRANSACTIONAL_ID, 2)
    producer = Producer(broker).init()
    other = Producer(broker, OTHER).init()
    producer.add(0)
    producer.add(1)
    assert producer.produce(0) is producer.produce(1) is E.NONE

    def hand_over_in(turns_left: int) -> None:
        if turns_left:
            broker.time.call_soon(lambda: hand_over_in(turns_left - 1))
        else:
            runtime.lose(lost)
            broker.time.call_later(50, lambda: runtime.gain(lost, 1))

    hand_over_in(turns)
    answer = producer.ask_end(True, version)
    assert answer.error_code in (E.NONE, E.NOT_COORDINATOR)
    assert other.add(0) == [E.NONE], "the other partition serves"
    assert other.end(True) is E.NONE
    broker.let_pass(1_000)
    again = producer.ask_end(True, version)
    assert again.error_code == E.NONE
    broker.let_pass(1_000)
    for partition in (0, 1):
        log = log_of(broker, partition)
        assert log.last_stable_offset == log.log_end_offset
    for survivor in (broker, broker.killed()):
        known_ids = [each.metadata for each in survivor.broker.transactions.current()]
        assert {metadata.state for metadata in known_ids} == {TransactionState.COMPLETE_COMMIT}
        assert len(known_ids) == 2
