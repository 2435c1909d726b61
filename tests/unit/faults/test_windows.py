"""The windows in which a transaction can be caught, by their numbers in docs/operate/fault-injection.md, brought about
exactly.

Each test stops a broker there, kills it or repeats a packet, and holds what must be true afterwards.
"""

import pytest

from oncelog.broker.faults.rule import Action, Point, Rule, Selector
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.errors import ErrorCode as E
from oncelog.protocol.generated.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from oncelog.protocol.generated.delete_topics_request import DeleteTopicsRequest
from oncelog.protocol.generated.init_producer_id_request import InitProducerIdRequest
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.testing.memory_disk import PowerCut
from tests.clients.producer import TIMEOUT_MS, TOPIC, TRANSACTIONAL_ID, log_of
from tests.fakes.broker import VirtualBroker
from tests.unit.faults.support import (
    LEVELS,
    V1,
    V2,
    Writer,
    begin,
    committed,
    error_of,
    is_settled,
    opened,
    plant,
    state_of,
)

OURS = Selector(transactional_id=TRANSACTIONAL_ID)
GROUP = "group"
BOTH = pytest.mark.parametrize("level", LEVELS)
EITHER_WAY = pytest.mark.parametrize("commit", [True, False])
DAY_MS = 86_400_000


def of_state(state: str) -> Selector:
    return Selector(topic="__transaction_state", transactional_id=TRANSACTIONAL_ID, state=state)


def prepared(commit: bool) -> str:
    return "PrepareCommit" if commit else "PrepareAbort"


def completed(commit: bool) -> str:
    return "CompleteCommit" if commit else "CompleteAbort"


def holds_outcome(broker: VirtualBroker, commit: bool) -> bool:
    """Whether every partition shows the outcome, and nothing is open."""
    expected = ["first"] if commit else []
    return [committed(broker, 0), committed(broker, 1)] == [expected, expected] and is_settled(broker)


# --- crashes ----------------------------------------------------------------------------------------------------------


@BOTH
@EITHER_WAY
def test_window_1_prepare_is_on_disk_and_no_marker(level: int, commit: bool) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPENDED, Action.CRASH, of_state(prepared(commit)))
    with pytest.raises(PowerCut):
        writer.send_end(commit=commit)
    again = broker.killed()
    assert state_of(again) == completed(commit)
    assert holds_outcome(again, commit)


@BOTH
@EITHER_WAY
def test_window_2_one_marker_of_two_is_written(level: int, commit: bool) -> None:
    broker, writer = opened(level)
    plant(broker, Point.MARKER, Action.HOLD, Selector(partition=0))
    plant(broker, Point.MARKER_WRITTEN, Action.CRASH, Selector(partition=1))
    with pytest.raises(PowerCut):
        writer.send_end(commit=commit)
    assert [log_of(broker, partition).log_end_offset for partition in (0, 1)] == [1, 2]
    assert holds_outcome(broker.killed(), commit)


@BOTH
@EITHER_WAY
def test_window_3_all_markers_are_written_and_complete_is_not(level: int, commit: bool) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPEND, Action.CRASH, of_state(completed(commit)))
    with pytest.raises(PowerCut):
        writer.send_end(commit=commit)
    again = broker.killed()
    assert state_of(again) == completed(commit)
    assert log_of(again).log_end_offset == 3, "the marker is written a second time"
    assert holds_outcome(again, commit)


@BOTH
@pytest.mark.parametrize("action", [Action.CRASH, Action.TEAR])
def test_window_4_prepare_is_not_on_disk_so_the_client_may_still_commit(level: int, action: Action) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPEND, action, of_state("PrepareCommit"))
    with pytest.raises(PowerCut):
        writer.send_end()
    again = broker.killed()
    assert state_of(again) == "Ongoing"
    assert committed(again) == []
    writer.broker = again
    assert writer.finish() is E.NONE
    assert holds_outcome(again, commit=True)


@BOTH
def test_window_4_prepare_is_not_on_disk_and_the_client_is_gone_so_the_timeout_aborts(level: int) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPEND, Action.CRASH, of_state("PrepareCommit"))
    with pytest.raises(PowerCut):
        writer.send_end()
    again = broker.killed()
    again.faults.time.advance(TIMEOUT_MS)
    again.time.settle()
    assert state_of(again) == "CompleteAbort"
    assert holds_outcome(again, commit=False)


@BOTH
def test_window_5_an_open_transaction_continues_where_it_was(level: int) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPENDED, Action.CRASH, Selector(topic=TOPIC, partition=0))
    with pytest.raises(PowerCut):
        writer.write("second", sequence=1)
    again = broker.killed()
    writer.broker = again
    assert (state_of(again), committed(again), log_of(again).last_stable_offset) == ("Ongoing", [], 0)
    assert writer.write("second", sequence=1) is E.NONE, "the retry of what was written is recognised"
    assert writer.write("third", sequence=2) is E.NONE
    assert writer.finish() is E.NONE
    assert committed(again) == ["first", "second", "third"]


@BOTH
@pytest.mark.parametrize(
    ("point", "action"), [(Point.APPEND, Action.CRASH), (Point.APPEND, Action.TEAR), (Point.APPENDED, Action.CRASH)]
)
def test_window_35_wherever_a_write_is_cut_the_transaction_is_whole_or_not_there(
    level: int, point: Point, action: Action
) -> None:
    nth = 0
    is_cut = True
    while is_cut:
        nth += 1
        broker, writer = opened(level)
        plant(broker, point, action, nth=nth)
        try:
            is_answered = error_of(writer.send_end()) is E.NONE
            broker.let_pass(1_000)
            is_cut = False
        except PowerCut:
            is_answered = False
        again = broker.killed()
        again.let_pass(2 * TIMEOUT_MS)
        assert holds_outcome(again, commit=bool(committed(again)))
        assert committed(again) or not is_answered
    assert nth > 4  # PREPARE, two markers, COMPLETE


# --- races ------------------------------------------------------------------------------------------------------------


@BOTH
def test_window_6_a_commit_that_comes_after_the_timeout_has_lost(level: int) -> None:
    broker, writer = opened(level)
    late = plant(broker, Point.REQUEST, Action.HOLD, Selector(ApiKey.END_TXN))
    reply = writer.send_end()
    broker.faults.time.advance(TIMEOUT_MS)
    broker.time.settle()
    assert state_of(broker) == "CompleteAbort"
    broker.faults.release(late)
    broker.time.settle()
    assert error_of(reply) is E.PRODUCER_FENCED
    assert holds_outcome(broker, commit=False)


@BOTH
def test_window_6_a_timeout_that_comes_after_prepare_has_lost(level: int) -> None:
    broker, writer = opened(level)
    held = plant(broker, Point.MARKER, Action.HOLD, OURS, times=None)
    assert writer.finish() is E.NONE
    broker.faults.time.advance(10 * TIMEOUT_MS)
    broker.time.settle()
    assert state_of(broker) == "PrepareCommit"
    broker.faults.remove(held)
    broker.time.settle()
    assert holds_outcome(broker, commit=True)


@BOTH
@EITHER_WAY
def test_window_7_an_end_whose_answer_was_lost_succeeds_again_and_its_opposite_does_not(
    level: int, commit: bool
) -> None:
    broker, writer = opened(level)
    plant(broker, Point.ANSWER, Action.DROP, Selector(ApiKey.END_TXN))
    with pytest.raises(AssertionError, match="drops the response"):
        error_of(writer.send_end(commit=commit))
    opposite = E.INVALID_TXN_STATE if commit or level == V1 else E.PRODUCER_FENCED
    assert error_of(writer.send_end(commit=not commit)) is opposite
    assert error_of(writer.send_end(commit=commit)) is E.NONE
    assert holds_outcome(broker, commit)


def test_window_8_a_late_commit_tears_the_next_transaction_of_version_1() -> None:
    """Jepsen, Bufstream 0.1.0: nothing in the protocol distinguishes a late EndTxn from the next one (KAFKA-17754).

    Apache Kafka does the same. This is why KIP-890 gives each transaction an epoch of its own.
    """
    broker, writer = opened(V1, 0)
    late = plant(broker, Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.END_TXN))
    assert writer.finish() is E.NONE
    assert writer.add(0) == [E.NONE]
    assert writer.write("left leg", 0, sequence=1) is E.NONE
    broker.faults.release(late)
    broker.time.settle()
    assert list(late.answers_of_copies) == ["NONE"]
    assert writer.add(1) == [E.NONE]
    assert writer.write("right leg", 1) is E.NONE
    assert writer.finish(commit=False) is E.NONE
    assert (committed(broker, 0), committed(broker, 1)) == (["first", "left leg"], []), "half of it is committed"


def test_window_8_a_late_commit_does_nothing_to_the_next_transaction_of_version_2() -> None:
    broker, writer = opened(V2, 0)
    late = plant(broker, Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.END_TXN))
    assert writer.finish() is E.NONE
    assert writer.write("left leg", 0) is E.NONE
    broker.faults.release(late)
    broker.time.settle()
    assert list(late.answers_of_copies) == ["PRODUCER_FENCED"]
    assert writer.write("right leg", 1) is E.NONE
    assert writer.finish(commit=False) is E.NONE
    assert (committed(broker, 0), committed(broker, 1)) == (["first"], [])
    assert is_settled(broker)


@pytest.mark.parametrize(("level", "is_refused"), [(V1, False), (V2, True)])
def test_window_8_a_late_record_of_an_aborted_transaction_is_committed_with_the_next_only_under_version_1(
    level: int, is_refused: bool
) -> None:
    broker, writer = opened(level, 1)
    if level == V1:
        assert writer.add(0) == [E.NONE]
    late = plant(broker, Point.REQUEST, Action.HOLD, Selector(ApiKey.PRODUCE, partition=0))
    reply = writer.send_write("of the aborted one")
    assert not reply.is_there
    assert writer.finish(commit=False) is E.NONE
    if level == V1:
        assert writer.add(0) == [E.NONE]
    broker.faults.release(late)
    broker.time.settle()
    assert (error_of(reply) is not E.NONE) is is_refused
    assert writer.write("of the next", sequence=0 if is_refused else 1) is E.NONE
    assert writer.finish() is E.NONE
    assert committed(broker) == [*([] if is_refused else ["of the aborted one"]), "of the next"]


def test_window_8_late_partitions_open_a_transaction_that_version_1_cannot_distinguish_from_a_new_one() -> None:
    """It holds readers up until its timeout, as in Apache Kafka; version 2 has no such request to come late."""
    broker, writer = opened(V1, 0)
    late = plant(broker, Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.ADD_PARTITIONS_TO_TXN))
    assert writer.add(1) == [E.NONE]
    assert writer.finish() is E.NONE
    broker.faults.release(late)
    broker.time.settle()
    assert list(late.answers_of_copies) == ["NONE"]
    assert state_of(broker) == "Ongoing"
    broker.faults.time.advance(TIMEOUT_MS)
    broker.time.settle()
    assert (state_of(broker), is_settled(broker)) == ("CompleteAbort", True)


@BOTH
def test_window_9_whatever_a_zombie_sent_before_its_fence_and_comes_after_it_is_refused(level: int) -> None:
    broker, zombie = opened(level)
    held = plant(broker, Point.REQUEST, Action.HOLD, Selector(client_id="client"), times=2)
    replies = [zombie.send_write("late", sequence=1), zombie.send_end()]
    successor = Writer(broker, level).init()
    broker.faults.release(held)
    broker.time.settle()
    assert [error_of(reply) for reply in replies] == [E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED]
    begin(successor, 0, value="of the successor")
    assert successor.finish() is E.NONE
    assert (committed(broker, 0), committed(broker, 1)) == (["of the successor"], [])


def test_window_12_version_1_gives_a_new_producer_id_when_the_epochs_are_used_up() -> None:
    broker, writer = opened(V1)
    assert writer.finish() is E.NONE
    broker.broker.transactions.move_epoch_on(TRANSACTIONAL_ID, 32_760)
    broker.time.settle()
    pairs = [Writer(broker, V1).init().pair for _ in range(8)]
    first = writer.producer_id
    assert [epoch for producer_id, epoch in pairs if producer_id == first] == list(range(32_761, 32_767))
    assert [epoch for producer_id, epoch in pairs if producer_id != first] == [0, 1]


def test_window_12_version_2_rotates_inside_an_end_and_answers_its_retry_by_the_old_id() -> None:
    broker, writer = opened(V2)
    assert writer.finish() is E.NONE
    broker.broker.transactions.move_epoch_on(TRANSACTIONAL_ID, 32_760)
    broker.time.settle()
    writer.init()
    first, epochs = writer.producer_id, []
    while writer.producer_epoch < 32_766:
        epochs.append(writer.producer_epoch)
        begin(writer, 0, value=f"of epoch {writer.producer_epoch}")
        assert writer.finish() is E.NONE
    assert (writer.producer_id, epochs) == (first, list(range(32_761, 32_766)))
    begin(writer, 0, value="of the last epoch")
    plant(broker, Point.ANSWER, Action.DROP, Selector(ApiKey.END_TXN))
    writer.send_end()
    assert writer.finish() is E.NONE
    assert writer.producer_id != first and writer.producer_epoch == 0
    begin(writer, 0, value="of the new id")
    assert writer.finish() is E.NONE
    assert committed(broker)[-2:] == ["of the last epoch", "of the new id"]


@BOTH
def test_window_13_of_twenty_instances_that_come_at_once_one_is_left(level: int) -> None:
    broker, _ = opened(level)
    storm = plant(broker, Point.REQUEST, Action.HOLD, Selector(ApiKey.INIT_PRODUCER_ID), times=20)
    init = InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=TIMEOUT_MS)
    replies = [broker.send(init, 4) for _ in range(20)]
    broker.faults.release(storm)
    broker.time.settle()
    assert {error_of(reply) for reply in replies} == {E.CONCURRENT_TRANSACTIONS}
    plant(broker, Point.REQUEST, Action.HOLD, Selector(ApiKey.INIT_PRODUCER_ID), times=20)
    replies = [broker.send(init, 4) for _ in range(20)]
    broker.faults.remove_all()
    broker.time.settle()
    pairs = [(reply.message.producer_id, reply.message.producer_epoch) for reply in replies if not error_of(reply)]
    assert len(set(pairs)) == len(pairs) >= 1
    outcomes = []
    for producer_id, producer_epoch in pairs:
        instance = Writer(broker, level)
        instance.producer_id, instance.producer_epoch = producer_id, producer_epoch
        outcomes.append(instance.add(0, version=3)[0])
    assert outcomes == [E.PRODUCER_FENCED] * (len(pairs) - 1) + [E.NONE]


# --- time -------------------------------------------------------------------------------------------------------------


def after_days(broker: VirtualBroker, days: int) -> None:
    broker.faults.time.advance(days * DAY_MS)
    broker.time.settle()
    broker.broker.transactions.step()
    broker.broker.logs.step()
    broker.time.settle()


@BOTH
def test_window_14_an_idle_id_is_forgotten_after_a_week_and_one_that_is_ending_is_not(level: int) -> None:
    broker, writer = opened(level)
    assert writer.finish() is E.NONE
    ending = begin(Writer(broker, level, "ending").init(), 0)
    plant(broker, Point.MARKER, Action.HOLD, Selector(transactional_id="ending"))
    assert ending.finish() is E.NONE
    after_days(broker, 8)
    assert (state_of(broker), state_of(broker, "ending")) == (None, "PrepareCommit")
    assert writer.add(0) == [E.INVALID_PRODUCER_ID_MAPPING]
    broker.faults.remove_all()
    broker.time.settle()
    assert state_of(broker, "ending") == "CompleteCommit"


def test_window_21_a_producer_that_a_partition_has_forgotten_may_begin_anywhere_and_one_that_is_open_is_kept() -> None:
    broker, writer = opened(V1)
    assert writer.finish() is E.NONE
    ending = begin(Writer(broker, V1, "ending").init(), 0)
    plant(broker, Point.MARKER, Action.HOLD, Selector(transactional_id="ending"))
    assert ending.finish() is E.NONE
    after_days(broker, 2)
    known = [producer.producer_id for producer in log_of(broker).producer_state.producers()]
    assert known == [ending.producer_id]
    assert writer.add(0) == [E.NONE]
    assert writer.write("after two days", sequence=7) is E.NONE


@BOTH
@pytest.mark.parametrize("offset_ms", [-3_600_000, DAY_MS])
def test_window_42_a_wall_clock_that_jumps_ends_nothing_and_keeps_nothing_open(level: int, offset_ms: int) -> None:
    broker, writer = opened(level)
    broker.faults.time.jump_wall(offset_ms)
    broker.faults.time.advance(TIMEOUT_MS - 1)
    broker.time.settle()
    assert state_of(broker) == "Ongoing"
    broker.faults.time.advance(1)
    broker.time.settle()
    assert state_of(broker) == "CompleteAbort"
    assert committed(broker) == []
    assert writer.finish(commit=False) is (E.PRODUCER_FENCED if level == V1 else E.NONE)


@BOTH
def test_window_44_a_client_that_slept_past_its_timeout_is_refused_by_the_partition_and_the_coordinator(
    level: int,
) -> None:
    broker, writer = opened(level)
    asleep = plant(broker, Point.REQUEST, Action.HOLD, OURS, times=None)
    replies = [writer.send_write("slept", sequence=1), writer.send_end()]
    broker.faults.time.advance(TIMEOUT_MS)
    broker.time.settle()
    broker.faults.remove(asleep)
    broker.time.settle()
    assert [error_of(reply) for reply in replies] == [E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED]
    assert holds_outcome(broker, commit=False)


# --- offsets, topics --------------------------------------------------------------------------------------------------


def commit_offset(writer: Writer) -> None:
    identity = {**writer.identity, "group_id": GROUP}
    assert writer.broker.ask(AddOffsetsToTxnRequest(**identity), 3).error_code == E.NONE
    data = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42)
    topics = [TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[data])]
    answer = writer.broker.ask(TxnOffsetCommitRequest(topics=topics, **identity), 3)
    assert answer.topics[0].partitions[0].error_code == E.NONE


def fetched_offset(broker: VirtualBroker, *, stable: bool = True) -> tuple[ErrorCode, int]:
    group = OffsetFetchRequestGroup(
        group_id=GROUP, topics=[OffsetFetchRequestTopics(name=TOPIC, partition_indexes=(0,))]
    )
    answer = broker.ask(OffsetFetchRequest(groups=[group], require_stable=stable), 8)
    partition = answer.groups[0].topics[0].partitions[0]
    return ErrorCode(partition.error_code), partition.committed_offset


@EITHER_WAY
def test_window_15_offsets_are_unstable_until_their_marker_is_written_even_when_the_end_is_decided(
    commit: bool,
) -> None:
    broker, writer = opened(V1)
    commit_offset(writer)
    held = plant(broker, Point.MARKER, Action.HOLD, Selector(topic="__consumer_offsets"))
    assert writer.finish(commit=commit) is E.NONE
    assert fetched_offset(broker)[0] is E.UNSTABLE_OFFSET_COMMIT
    assert fetched_offset(broker, stable=False) == (E.NONE, -1)
    broker.faults.remove(held)
    broker.time.settle()
    assert fetched_offset(broker) == (E.NONE, 42 if commit else -1)
    assert holds_outcome(broker, commit)


@BOTH
def test_window_17_a_topic_that_is_deleted_under_an_ending_transaction_does_not_keep_it_from_its_end(
    level: int,
) -> None:
    broker, writer = opened(level)
    held = plant(broker, Point.MARKER, Action.HOLD, OURS, times=None)
    assert writer.finish() is E.NONE
    broker.ask(DeleteTopicsRequest(topic_names=[TOPIC], timeout_ms=1_000), 5)
    broker.faults.remove(held)
    broker.let_pass(1_000)
    assert state_of(broker) == "CompleteCommit"
    assert broker.broker.transactions.open_count == 0


# --- answers that are lost, packets that come twice -------------------------------------------------------------------


@BOTH
def test_window_19_a_batch_that_comes_twice_is_written_once(level: int) -> None:
    broker, writer = opened(level)
    copy = plant(broker, Point.REQUEST, Action.DUPLICATE, Selector(ApiKey.PRODUCE), delay_ms=50)
    assert writer.write("second", sequence=1) is E.NONE
    broker.let_pass(50)
    assert list(copy.answers_of_copies) == ["NONE"]
    assert writer.finish() is E.NONE
    assert committed(broker) == ["first", "second"]


def test_window_49_whichever_answer_of_a_transaction_is_lost_the_retry_ends_in_one_copy_of_all() -> None:
    for api in (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.PRODUCE,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    ):
        broker, writer = opened(V1)
        assert writer.finish() is E.NONE
        lost = plant(broker, Point.ANSWER, Action.DROP, Selector(api))
        for step in (
            lambda writer=writer: writer.init(),
            lambda writer=writer: writer.add(0, 1),
            lambda writer=writer: writer.write("left"),
            lambda writer=writer: writer.write("right", 1),
            lambda writer=writer: commit_offset(writer),
            lambda writer=writer: writer.finish(),
        ):
            fired = lost.fired_count
            try:
                step()
            except AssertionError:
                assert lost.fired_count > fired
                step()
        assert lost.is_consumed
        assert committed(broker, 0) == ["first", "left"]
        assert committed(broker, 1) == ["first", "right"]
        assert fetched_offset(broker) == (E.NONE, 42)
        assert is_settled(broker)


@BOTH
def test_a_rule_of_a_start_holds_what_the_start_would_finish(level: int) -> None:
    broker, writer = opened(level)
    plant(broker, Point.APPENDED, Action.CRASH, of_state("PrepareCommit"))
    with pytest.raises(PowerCut):
        writer.send_end()
    again = broker.killed(rules=[Rule(Point.MARKER, Action.HOLD, OURS, times=None)])
    assert (state_of(again), committed(again)) == ("PrepareCommit", [])
    again.faults.remove_all()
    again.time.settle()
    assert holds_outcome(again, commit=True)
