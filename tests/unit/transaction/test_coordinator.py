"""The coordinator between its decisions: what is pending, what is durable before what, and what follows by itself."""

import pytest

from oncelog.broker.coordinator.transaction.metadata import Decision, ProducerIdAndEpoch
from oncelog.broker.coordinator.transaction.records import to_record
from oncelog.broker.coordinator.transaction.states import IllegalTransition, TransactionState
from oncelog.protocol.errors import ErrorCode, KafkaError
from tests.unit.transaction.harness import (
    EXPIRATION_MS,
    EXPIRY_INTERVAL_MS,
    ID,
    P0,
    P1,
    TIMEOUT_MS,
    Coordinator,
    outcomes,
)

E = ErrorCode
VERSIONS = pytest.mark.parametrize("version", [0, 2])
COMMITS = pytest.mark.parametrize("commit", [True, False])


def next_of(pair: ProducerIdAndEpoch, version: int) -> ProducerIdAndEpoch:
    """The identity for the next transaction after an end."""
    return ProducerIdAndEpoch(pair.producer_id, pair.producer_epoch + (version >= 2))


# --- pending and durable ---


def test_a_refusal_is_returned_only_when_its_reason_is_durable() -> None:
    coordinator = Coordinator()
    coordinator.rounds_are_whole = False
    pair = coordinator.init().pair
    coordinator.log.flushes_by_itself = False
    coordinator.add(pair, P0)
    refused = coordinator.init()
    assert not refused.is_answered
    coordinator.log.flush()
    assert refused.error is E.CONCURRENT_TRANSACTIONS


@VERSIONS
@COMMITS
def test_prepare_is_durable_before_the_answer_and_before_any_marker_and_all_markers_before_complete(
    version: int, commit: bool
) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0, P1, version=version)
    coordinator.log.flushes_by_itself = False
    coordinator.markers.holds = True
    ending = coordinator.end(pair, commit, version=version)
    assert coordinator.logged()[-1] == ("PrepareCommit" if commit else "PrepareAbort")
    assert not coordinator.markers.sent and not ending.is_answered
    coordinator.log.flush()
    assert ending.pair == next_of(pair, version)
    (sent,) = coordinator.markers.sent
    assert (sent.marker.committed, list(sent.partitions)) == (commit, [P0, P1])
    assert sent.marker.producer_epoch == next_of(pair, version).producer_epoch
    assert sent.marker.transaction_version == version
    assert coordinator.logged()[-1].startswith("Prepare")
    coordinator.markers.release()
    assert coordinator.logged()[-1] == ("CompleteCommit" if commit else "CompleteAbort")
    assert coordinator.end(pair, commit, version=version).is_answered is False
    coordinator.log.flush()
    assert coordinator.transitions.states[-1] == coordinator.logged()[-1]


@VERSIONS
def test_while_markers_are_on_their_way_both_ends_and_the_next_transaction_wait(version: int) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(version=version)
    coordinator.markers.holds = True
    after = coordinator.end(pair, True, version=version).pair
    for asked in (
        coordinator.end(pair, True, version=version),
        coordinator.end(pair, False, version=version),
        coordinator.add(after, P0, version=version),
        coordinator.init(),
    ):
        assert asked.error is E.CONCURRENT_TRANSACTIONS
    coordinator.markers.release()
    assert coordinator.add(after, P0, version=version).error is E.NONE


@VERSIONS
@COMMITS
def test_an_end_whose_answer_was_lost_succeeds_again_with_the_same_pair(version: int, commit: bool) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(version=version)
    first = coordinator.end(pair, commit, version=version).pair
    again = coordinator.end(pair, commit, version=version)
    assert again.pair == first
    was_overtaken = version == 2 and not commit  # a commit after an abort is not its retry
    opposite = E.PRODUCER_FENCED if was_overtaken else E.INVALID_TXN_STATE
    assert coordinator.end(pair, not commit, version=version).error is opposite
    assert len(coordinator.markers.sent) == 1


def test_an_answer_holds_the_pair_of_its_decision_whatever_comes_before_the_flush() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(version=2)
    after = coordinator.end(pair, True, version=2).pair
    coordinator.log.flushes_by_itself = False
    adding = coordinator.add(after, P0, version=2)
    coordinator.log.flush()
    assert adding.error is E.NONE
    again = coordinator.add(after, P0, version=2)
    ending = coordinator.end(after, True, version=2)
    coordinator.log.flush()
    assert (again.pair.producer_epoch, ending.pair.producer_epoch) == (1, 2)


def test_an_append_that_fails_is_reported_and_changes_nothing() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    assert coordinator.end(pair, True).error is E.NOT_COORDINATOR
    assert coordinator.known.state is TransactionState.ONGOING
    coordinator.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    assert coordinator.add(pair, P1).error is E.NOT_COORDINATOR
    assert coordinator.verify(pair, P0) is E.NONE
    assert coordinator.end(pair, True).error is E.NONE


def test_a_complete_that_cannot_be_logged_just_now_is_logged_later() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.markers.holds = True
    assert coordinator.end(pair, True).error is E.NONE
    coordinator.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    coordinator.markers.release()
    assert coordinator.end(pair, True).error is E.CONCURRENT_TRANSACTIONS
    coordinator.time.advance(100)
    assert coordinator.logged()[-1] == "CompleteCommit"
    assert coordinator.end(pair, True).error is E.NONE


def test_a_decision_that_breaks_the_rules_is_an_error_and_never_logged() -> None:
    coordinator = Coordinator()
    coordinator.begun(P0)
    before = list(coordinator.log.records)
    illegal = coordinator.known._replace(producer_epoch=5)
    with pytest.raises(IllegalTransition):
        coordinator.core._transition(ID, lambda *_: Decision(target=illegal), lambda _: None)
    assert coordinator.log.records == before


# --- requests that make no sense ---


def test_an_empty_id_and_a_pair_given_by_half_are_invalid() -> None:
    coordinator = Coordinator()
    assert coordinator.init(transactional_id="").error is E.INVALID_REQUEST
    for pair in (ProducerIdAndEpoch(5, -1), ProducerIdAndEpoch(-1, 5)):
        assert coordinator.init(pair).error is E.INVALID_REQUEST
    pair = ProducerIdAndEpoch(1, 0)
    assert coordinator.add(pair, P0, transactional_id="").error is E.INVALID_REQUEST
    assert coordinator.end(pair, True, transactional_id="").error is E.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_outside_the_limits_is_refused_and_nothing_is_made(timeout_ms: int) -> None:
    coordinator = Coordinator()
    assert coordinator.init(timeout_ms=timeout_ms).error is E.INVALID_TRANSACTION_TIMEOUT
    assert coordinator.log.records == []


def test_a_producer_without_a_transactional_id_leaves_no_trace() -> None:
    coordinator = Coordinator()
    answer = coordinator.core.init_producer_id(None, -1)
    assert answer.result() == ProducerIdAndEpoch(1_000, 0)
    assert coordinator.log.records == []


# --- fencing ---


@pytest.mark.parametrize("level", [1, 2])
def test_a_new_instance_ends_what_its_predecessor_left_open_and_fences_it(level: int) -> None:
    coordinator = Coordinator(level=level)
    old = coordinator.begun(P0)
    coordinator.markers.holds = True
    assert coordinator.init().error is E.CONCURRENT_TRANSACTIONS
    assert coordinator.init().error is E.CONCURRENT_TRANSACTIONS
    assert len(coordinator.markers.sent) == 1 and outcomes(coordinator.markers.sent) == {False}
    coordinator.markers.release()
    new = coordinator.init().pair
    assert new == ProducerIdAndEpoch(old.producer_id, old.producer_epoch + 2)
    for refused in (
        coordinator.add(old, P0),
        coordinator.end(old, True),
        coordinator.end(old, False),
        coordinator.end(old, True, version=2),
        coordinator.init(old),
    ):
        assert refused.error is E.PRODUCER_FENCED
    assert coordinator.verify(old, P0) is E.PRODUCER_FENCED
    assert coordinator.transitions.fenced == 5
    assert coordinator.add(new, P0).error is E.NONE


def test_the_old_producer_is_refused_from_the_moment_of_the_fence() -> None:
    coordinator = Coordinator()
    old = coordinator.begun(P0)
    coordinator.markers.holds = True
    coordinator.init()
    assert coordinator.end(old, True).error is E.PRODUCER_FENCED
    assert coordinator.verify(old, P0) is E.PRODUCER_FENCED


def test_a_producer_that_resumes_is_answered_again_also_after_a_restart() -> None:
    coordinator = Coordinator()
    pair = coordinator.init().pair
    resumed = coordinator.init(pair).pair
    assert resumed == ProducerIdAndEpoch(pair.producer_id, 1)
    assert coordinator.init(pair).pair == resumed
    assert coordinator.init(ProducerIdAndEpoch(pair.producer_id, 7)).error is E.PRODUCER_FENCED
    assert coordinator.restarted().init(pair).pair == resumed


# --- epochs that are used up ---


@COMMITS
def test_over_the_last_epoch_an_end_rotates_the_producer_id_and_a_lost_answer_is_answered_again(commit: bool) -> None:
    coordinator = Coordinator(level=2)
    coordinator.begun(P0, version=2)
    coordinator = fast_forwarded(coordinator)
    pair = coordinator.known.producer
    assert pair.producer_epoch == 32_766
    assert coordinator.add(pair, P0, version=2).error is E.NONE
    coordinator.markers.holds = True
    first = coordinator.end(pair, commit, version=2).pair
    assert first.producer_epoch == 0 and first.producer_id != pair.producer_id
    (sent,) = coordinator.markers.waiting
    assert (sent.marker.producer_id, sent.marker.producer_epoch) == (pair.producer_id, 32_767)
    assert coordinator.add(first, P0, version=2).error is E.CONCURRENT_TRANSACTIONS
    # A restart in between finishes it with the very same id.
    for survivor in (coordinator, coordinator.restarted()):
        if survivor is coordinator:
            coordinator.markers.release()
        assert survivor.known.producer == first
        assert survivor.end(pair, commit, version=2).pair == first
        opposite = E.INVALID_TXN_STATE if commit else E.PRODUCER_FENCED
        assert survivor.end(pair, not commit, version=2).error is opposite
    assert coordinator.add(first, P0, version=2).error is E.NONE
    assert coordinator.add(pair, P0, version=2).error is E.INVALID_PRODUCER_ID_MAPPING


def fast_forwarded(coordinator: Coordinator) -> Coordinator:
    """Restart the coordinator with the id at the last epoch that a client gets."""
    last = coordinator.known._replace(
        state=TransactionState.COMPLETE_COMMIT, partitions=frozenset(), producer_epoch=32_766
    )
    coordinator.log.write(to_record(last, 2))
    coordinator.log.flush()
    return coordinator.restarted()


def test_two_requests_that_wait_for_a_fresh_id_do_not_both_take_one() -> None:
    coordinator = Coordinator()
    coordinator.ids.holds = True
    first, second = coordinator.init(), coordinator.init()
    coordinator.ids.release()
    assert first.pair.producer_epoch == 0
    assert second.pair == ProducerIdAndEpoch(first.pair.producer_id, 1), "the second is another instance of the same id"
    assert coordinator.logged() == ["Empty", "Empty"]


# --- markers ---


def test_a_partition_that_cannot_take_its_marker_now_is_asked_again_alone_and_ever_more_slowly() -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    pair = coordinator.begun(P0, P1)
    coordinator.end(pair, True)
    coordinator.markers.release(E.NONE, E.NOT_ENOUGH_REPLICAS)
    moments = []
    for error in (E.KAFKA_STORAGE_ERROR, E.UNKNOWN_SERVER_ERROR, E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE):
        while not coordinator.markers.waiting:
            coordinator.time.advance(1)
        moments.append(coordinator.time.monotonic_ms())
        assert list(coordinator.markers.waiting[0].partitions) == [P1]
        coordinator.markers.release(error)
    assert moments == [20, 60, 140, 300]
    assert coordinator.logged()[-1] == "CompleteCommit"


def test_a_channel_that_fails_is_asked_again_for_everything() -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    coordinator.end(coordinator.begun(P0, P1), True)
    coordinator.markers.waiting[0].answer.fail(ConnectionError("the node is gone"))
    assert coordinator.logged()[-1] == "PrepareCommit"
    coordinator.time.advance(20)
    assert list(coordinator.markers.waiting[0].partitions) == [P0, P1]


def test_an_end_of_version_1_keeps_the_epoch_though_its_partitions_came_by_version_2() -> None:
    coordinator = Coordinator(level=2)
    pair = coordinator.begun(P0, version=2)
    assert coordinator.end(pair, True, version=0).pair == pair
    (sent,) = coordinator.markers.sent
    assert (sent.marker.producer_epoch, sent.marker.transaction_version) == (pair.producer_epoch, 0)


@pytest.mark.parametrize("error", [E.INVALID_PRODUCER_EPOCH, E.TRANSACTION_COORDINATOR_FENCED])
def test_a_partition_with_a_marker_of_a_newer_coordinator_is_given_up(error: ErrorCode) -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    coordinator.end(coordinator.begun(P0, P1), True)
    coordinator.markers.release(error, E.NONE)
    assert coordinator.logged()[-1] == "CompleteCommit"
    assert len(coordinator.markers.sent) == 1


def test_the_partitions_of_a_deleted_topic_hold_nothing_up() -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    coordinator.end(coordinator.begun(P0, P1), False)
    coordinator.gone.add(P1)
    coordinator.markers.release(E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION)
    coordinator.time.advance(20)
    assert coordinator.logged()[-1] == "CompleteAbort"
    assert len(coordinator.markers.sent) == 1


def test_a_transaction_without_partitions_ends_without_markers() -> None:
    coordinator = Coordinator(level=2)
    pair = coordinator.init().pair
    assert coordinator.end(pair, False, version=2).pair == next_of(pair, 2)
    assert coordinator.logged() == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert coordinator.markers.sent == []


# --- timeouts ---


def test_an_open_transaction_is_aborted_exactly_when_its_time_is_over_whatever_was_added_meanwhile() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS - 1)
    assert coordinator.add(pair, P1).error is E.NONE
    assert coordinator.known.state is TransactionState.ONGOING
    coordinator.time.advance(1)
    assert coordinator.logged()[-2:] == ["PrepareAbort", "CompleteAbort"]
    assert list(coordinator.markers.sent[0].partitions) == [P0, P1]


def test_a_wall_clock_that_jumps_ends_nothing_early_and_keeps_nothing_open() -> None:
    for jump_ms in (-3_600_000, 3_600_000):
        coordinator = Coordinator()
        pair = coordinator.begun(P0)
        coordinator.time.wall_offset_ms += jump_ms
        coordinator.time.advance(TIMEOUT_MS - 1)
        assert coordinator.add(pair, P1).error is E.NONE
        assert coordinator.known.state is TransactionState.ONGOING
        coordinator.time.advance(1)
        assert coordinator.known.state is TransactionState.COMPLETE_ABORT


def test_after_a_restart_the_time_before_it_counts() -> None:
    coordinator = Coordinator()
    coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS - 1_000)
    survivor = coordinator.restarted()
    survivor.time.advance(999)
    assert survivor.known.state is TransactionState.ONGOING
    survivor.time.advance(1)
    assert survivor.known.state is TransactionState.COMPLETE_ABORT


def test_a_transaction_that_timed_out_while_the_broker_was_down_is_aborted_at_the_start() -> None:
    coordinator = Coordinator()
    coordinator.begun(P0)
    coordinator.time.wall_offset_ms += 2 * TIMEOUT_MS
    assert coordinator.restarted().known.state is TransactionState.COMPLETE_ABORT


@COMMITS
def test_an_end_that_is_on_its_way_wins_against_the_timeout(commit: bool) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS - 1)
    coordinator.log.flushes_by_itself = False
    ending = coordinator.end(pair, commit)
    coordinator.time.advance(TIMEOUT_MS)
    coordinator.log.flush()
    coordinator.log.flush()
    assert ending.error is E.NONE
    assert coordinator.logged()[-1] == ("CompleteCommit" if commit else "CompleteAbort")
    assert "PrepareAbort" not in coordinator.logged() or not commit
    assert coordinator.known.producer == pair


def test_a_timeout_waits_for_an_addition_that_is_not_durable_yet_unless_rounds_are_whole() -> None:
    coordinator = Coordinator()
    coordinator.rounds_are_whole = False
    pair = coordinator.begun(P0)
    coordinator.log.flushes_by_itself = False
    adding = coordinator.add(pair, P1)
    coordinator.time.advance(TIMEOUT_MS)
    assert coordinator.logged()[-1] == "Ongoing"
    coordinator.log.flush()
    coordinator.log.flushes_by_itself = True
    coordinator.time.advance(20)
    assert adding.error is E.NONE
    assert coordinator.logged()[-1] == "CompleteAbort"
    assert list(coordinator.markers.sent[0].partitions) == [P0, P1]


def test_a_timeout_that_cannot_be_logged_is_tried_again() -> None:
    coordinator = Coordinator()
    coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS - 1)
    coordinator.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    coordinator.time.advance(1)
    assert coordinator.known.state is TransactionState.ONGOING
    coordinator.time.advance(20)
    assert coordinator.known.state is TransactionState.COMPLETE_ABORT


def test_the_timeout_of_one_transaction_does_not_reach_the_next() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS - 1)
    coordinator.end(pair, True)
    coordinator.add(pair, P0)
    coordinator.time.advance(TIMEOUT_MS - 1)
    assert coordinator.known.state is TransactionState.ONGOING
    coordinator.time.advance(1)
    assert coordinator.known.state is TransactionState.COMPLETE_ABORT


def test_a_timeout_that_came_during_an_addition_does_not_take_the_time_of_the_next_transaction() -> None:
    """The client ends its transaction and begins another in the very turn in which the addition becomes durable."""
    coordinator = Coordinator()
    coordinator.rounds_are_whole = False
    pair = coordinator.begun(P0)
    coordinator.log.flushes_by_itself = False
    adding = coordinator.core.add_partitions(ID, pair.producer_id, pair.producer_epoch, [P1])

    def on_added(_: object) -> None:
        coordinator.log.flushes_by_itself = True
        assert coordinator.end(pair, True).error is E.NONE
        assert coordinator.add(pair, P0).error is E.NONE

    adding.then(on_added)
    coordinator.time.advance(TIMEOUT_MS)
    coordinator.log.flush()
    coordinator.time.advance(TIMEOUT_MS - 1)
    assert coordinator.known.state is TransactionState.ONGOING
    coordinator.time.advance(1)
    assert coordinator.known.state is TransactionState.COMPLETE_ABORT


def test_a_producer_that_timed_out_is_fenced_under_version_1() -> None:
    coordinator = Coordinator(level=1)
    pair = coordinator.begun(P0)
    coordinator.time.advance(TIMEOUT_MS)
    for asked in (coordinator.end(pair, True), coordinator.add(pair, P0), coordinator.init(pair)):
        assert asked.error is E.PRODUCER_FENCED
    assert coordinator.init().pair == ProducerIdAndEpoch(pair.producer_id, 2)


def test_a_producer_that_timed_out_under_version_2_gets_an_error_and_continues() -> None:
    coordinator = Coordinator(level=2)
    pair = coordinator.begun(P0, version=2)
    coordinator.time.advance(TIMEOUT_MS)
    (sent,) = coordinator.markers.sent
    assert (sent.marker.producer_epoch, sent.marker.transaction_version) == (1, 2)
    assert coordinator.end(pair, True, version=2).error is E.PRODUCER_FENCED
    after = coordinator.end(pair, False, version=2).pair
    assert after == next_of(pair, 2)
    assert coordinator.add(after, P0, version=2).error is E.NONE


# --- the add that comes with a batch ---


def test_an_implicit_add_waits_for_the_end_of_the_transaction_before() -> None:
    coordinator = Coordinator(level=2)
    after = coordinator.end(coordinator.begun(P0, version=2), True, version=2).pair
    coordinator.markers.holds = True
    coordinator.add(after, P0, version=2)
    last = coordinator.end(after, True, version=2).pair
    adding = coordinator.core.add_partitions_implicitly(ID, last.producer_id, last.producer_epoch, [P0])
    coordinator.time.advance(50)
    assert not adding.done
    coordinator.markers.release()
    coordinator.time.advance(10)
    assert adding.done and adding.error is None
    assert coordinator.verify(last, P0) is E.NONE
    assert coordinator.known.client_transaction_version == 2


def test_an_implicit_add_waits_100_ms_and_no_longer_and_never_for_another_error() -> None:
    coordinator = Coordinator(level=2)
    coordinator.markers.holds = True
    pair = coordinator.begun(P0, version=2)
    after = coordinator.end(pair, True, version=2).pair
    adding = coordinator.core.add_partitions_implicitly(ID, after.producer_id, after.producer_epoch, [P0])
    coordinator.time.advance(99)
    assert not adding.done
    coordinator.time.advance(1)
    assert isinstance(adding.error, KafkaError) and adding.error.code is E.CONCURRENT_TRANSACTIONS
    coordinator.markers.release()
    stale = coordinator.core.add_partitions_implicitly(ID, pair.producer_id, pair.producer_epoch, [P0])
    assert isinstance(stale.error, KafkaError) and stale.error.code is E.PRODUCER_FENCED


# --- looking, forgetting ---


def test_a_description_shows_the_partitions_that_still_lack_their_marker() -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    coordinator.end(coordinator.begun(P0, P1), True)
    assert coordinator.core.describe(ID).result().partitions == {P0, P1}
    coordinator.markers.release(E.NONE, E.KAFKA_STORAGE_ERROR)
    assert coordinator.core.describe(ID).result().partitions == {P1}
    coordinator.time.advance(20)
    coordinator.markers.release()
    assert coordinator.core.describe(ID).result().partitions == frozenset()


def test_idle_ids_are_forgotten_and_open_ones_never() -> None:
    coordinator = Coordinator()
    idle = [f"idle-{number}" for number in range(1_201)]
    for transactional_id in idle:
        coordinator.init(transactional_id=transactional_id)
    pair = coordinator.init(timeout_ms=900_000).pair
    coordinator.core.step()
    coordinator.time.wall_offset_ms += EXPIRATION_MS - EXPIRY_INTERVAL_MS - 1
    coordinator.time.advance(EXPIRY_INTERVAL_MS)
    assert coordinator.add(pair, P0).error is E.NONE
    coordinator.core.step()
    shard = coordinator.runtime.shard(ID)
    assert sum(shard.get(transactional_id) is not None for transactional_id in idle) == len(idle)
    coordinator.time.wall_offset_ms += EXPIRATION_MS
    coordinator.time.advance(EXPIRY_INTERVAL_MS)
    coordinator.core.step()
    assert [metadata.transactional_id for metadata in shard.all()] == [ID]
    assert coordinator.init(transactional_id="idle-0").pair.producer_id == 1_000 + len(idle) + 1


def test_an_id_in_transition_is_not_forgotten() -> None:
    coordinator = Coordinator()
    coordinator.log.flushes_by_itself = False
    coordinator.init()
    coordinator.time.advance(EXPIRATION_MS)
    coordinator.core.step()
    assert coordinator.logged() == ["Empty"]


def test_an_id_that_is_being_forgotten_is_pending_until_that_is_durable() -> None:
    coordinator = Coordinator()
    coordinator.init()
    coordinator.log.flushes_by_itself = False
    for _ in range(2):
        coordinator.time.advance(2 * EXPIRATION_MS)
        coordinator.core.step()
    assert coordinator.logged() == ["Empty", "Dead"]
    coordinator.log.flush()
    assert coordinator.core.open_count == 0
