"""The share coordinator's answers, one by one: Kafka's checks in Kafka's order, and what each write leaves."""

from typing import Any
from uuid import UUID

import pytest

from oncelog.broker.coordinator.share.values import SharePartitionKey, ShareState, StateBatch
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated import share_snapshot_key, share_update_key
from oncelog.protocol.state_record_codec import prefix
from tests.fakes.coordinator_log import MemoryCoordinatorLog
from tests.fakes.share_coordinator import (
    COLD_MS,
    PARTITIONS,
    PRUNE_MS,
    TOPIC_IDS,
    UPDATES_PER_SNAPSHOT,
    Coordinating,
    code_of,
)

E = ErrorCode
KEY = SharePartitionKey("group", TOPIC_IDS[0], 0)
OTHER = SharePartitionKey("group", TOPIC_IDS[1], 1)
GONE = SharePartitionKey("group", UUID(int=9), 0)
BATCH = StateBatch(10, 19, 2, 1)


@pytest.fixture
def at() -> Coordinating:
    return Coordinating()


def kinds(at: Coordinating) -> str:
    """The records of the log: S a snapshot, U an update, T the end of a share-partition."""
    names = {share_snapshot_key.API_KEY: "S", share_update_key.API_KEY: "U"}
    return "".join("T" if record.value is None else names[prefix(record.key)] for record in at.log.records)


def initialized(at: Coordinating, key: SharePartitionKey = KEY, state_epoch: int = 5, start_offset: int = 10) -> None:
    assert code_of(at.coordinator.initialize(key, state_epoch, start_offset)) == E.NONE


# --- initialize -------------------------------------------------------------------------------------------------------


def test_a_share_partition_begins_with_a_snapshot_and_without_a_leader(at: Coordinating) -> None:
    initialized(at)
    assert at.coordinator.summary(KEY, 0).result() == ShareState(5, 0, 10, 0, ())
    assert kinds(at) == "S"


def test_where_nothing_was_read_yet_the_lag_is_unknown(at: Coordinating) -> None:
    initialized(at, start_offset=-1)
    assert at.coordinator.summary(KEY, 0).result() == ShareState(5, 0, -1, -1, ())


def test_to_begin_again_forgets_what_was_in_flight_and_fences_those_before(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.read(KEY, 3)
    at.coordinator.write(KEY, 5, 3, 12, 1, [BATCH])
    initialized(at, state_epoch=6, start_offset=0)
    assert at.coordinator.summary(KEY, 3).result() == ShareState(6, 0, 0, 0, ())
    assert at.coordinator.read(KEY, 3).result() == ShareState(6, 3, 0, 0, ())
    assert code_of(at.coordinator.write(KEY, 5, 3, -1, 0, [BATCH])) == E.FENCED_STATE_EPOCH
    assert code_of(at.coordinator.read(KEY, 2)) == E.FENCED_LEADER_EPOCH


def test_an_older_state_epoch_begins_nothing_and_minus_one_is_not_checked(at: Coordinating) -> None:
    initialized(at)
    assert code_of(at.coordinator.initialize(KEY, 4, 0)) == E.FENCED_STATE_EPOCH
    initialized(at, state_epoch=-1, start_offset=30)
    assert at.coordinator.summary(KEY, 0).result() == ShareState(-1, 0, 30, 0, ())
    assert code_of(at.coordinator.initialize(KEY, 4, 0)) == E.FENCED_STATE_EPOCH


# --- read, write ------------------------------------------------------------------------------------------------------


def test_nothing_is_read_or_written_before_it_begins(at: Coordinating) -> None:
    for refused, text in (
        (at.coordinator.read(KEY, 0), "Read operation on uninitialized share partition not allowed."),
        (at.coordinator.write(KEY, 0, 0, 0, 0, ()), "Write operation on uninitialized share partition not allowed."),
        (at.coordinator.read(GONE, 0), "Read operation on uninitialized share partition not allowed."),
    ):
        assert code_of(refused) == E.INVALID_REQUEST
        assert str(refused.error) == text
    assert at.log.records == []


def test_a_write_changes_the_state_and_a_read_returns_it(at: Coordinating) -> None:
    initialized(at)
    assert at.coordinator.write(KEY, 5, 0, -1, 0, [BATCH]).result() is None
    assert at.coordinator.write(KEY, 5, 0, 15, 5, [StateBatch(20, 29, 0, 1)]).result() is None
    expected = ShareState(5, 0, 15, 5, (StateBatch(15, 19, 2, 1), StateBatch(20, 29, 0, 1)))
    assert at.coordinator.read(KEY, 0).result() == expected
    assert at.coordinator.summary(KEY, 0).result() == expected._replace(batches=())


def test_a_read_with_a_newer_leader_epoch_is_written_and_fences_the_older(at: Coordinating) -> None:
    initialized(at)
    assert at.coordinator.read(KEY, 7).result().leader_epoch == 7
    assert kinds(at) == "SU"
    assert at.coordinator.read(KEY, 7).result().leader_epoch == 7
    assert kinds(at) == "SU"
    assert code_of(at.coordinator.read(KEY, 6)) == E.FENCED_LEADER_EPOCH
    assert code_of(at.coordinator.write(KEY, 5, 6, -1, 0, ())) == E.FENCED_LEADER_EPOCH
    assert code_of(at.coordinator.write(KEY, 5, -1, -1, 0, ())) == E.NONE


def test_a_reader_without_an_epoch_is_fenced_as_in_kafka(at: Coordinating) -> None:
    initialized(at)
    assert code_of(at.coordinator.read(KEY, -1)) == E.FENCED_LEADER_EPOCH


def test_the_leader_epoch_is_checked_before_the_state_epoch(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.read(KEY, 7)
    assert code_of(at.coordinator.write(KEY, 4, 6, -1, 0, ())) == E.FENCED_LEADER_EPOCH
    assert code_of(at.coordinator.write(KEY, 4, 7, -1, 0, ())) == E.FENCED_STATE_EPOCH
    assert code_of(at.coordinator.write(KEY, -1, 7, -1, 0, ())) == E.NONE


def test_a_writers_epoch_is_not_kept(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.write(KEY, 9, 9, -1, 0, ())
    assert at.coordinator.summary(KEY, 0).result()[:2] == (5, 0)


def test_after_so_many_updates_a_snapshot_follows(at: Coordinating) -> None:
    initialized(at)
    for offset in range(2 * UPDATES_PER_SNAPSHOT + 2):
        at.coordinator.write(KEY, 5, 0, -1, 0, [StateBatch(10 + offset, 10 + offset, 2, 1)])
    assert kinds(at) == "S" + 2 * ("U" * UPDATES_PER_SNAPSHOT + "S")
    assert at.coordinator.read(KEY, 0).result().batches == (StateBatch(10, 17, 2, 1),)
    assert [snapshot.epoch for snapshot, *_ in at.stored().values()] == [2]


def test_with_no_updates_between_snapshots_there_are_none() -> None:
    at = Coordinating(updates_per_snapshot=0)
    initialized(at)
    at.coordinator.write(KEY, 5, 0, -1, 0, [BATCH])
    at.coordinator.read(KEY, 1)
    assert kinds(at) == "SSS"


# --- delete, summary --------------------------------------------------------------------------------------------------


def test_what_is_deleted_may_begin_again_with_any_epoch(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.read(KEY, 7)
    assert code_of(at.coordinator.delete(KEY)) == E.NONE
    assert code_of(at.coordinator.read(KEY, 7)) == E.INVALID_REQUEST
    initialized(at, state_epoch=0)
    assert at.coordinator.read(KEY, 0).result() == ShareState(0, 0, 10, 0, ())
    assert kinds(at) == "SUTS"


def test_to_delete_what_there_is_not_is_no_error_and_no_record(at: Coordinating) -> None:
    assert code_of(at.coordinator.delete(KEY)) == E.NONE
    assert at.log.records == []


def test_the_summary_of_what_there_is_not_is_that_of_nothing(at: Coordinating) -> None:
    assert at.coordinator.summary(KEY, 5).result() == ShareState(0, 0, -1, -1, ())


# --- what all have in common ------------------------------------------------------------------------------------------


def each_operation(at: Coordinating, key: SharePartitionKey) -> list[Completion[Any]]:
    coordinator = at.coordinator
    return [
        coordinator.initialize(key, 9, 0),
        coordinator.read(key, 9),
        coordinator.write(key, 9, 9, 0, 0, ()),
        coordinator.delete(key),
        coordinator.summary(key, 9),
    ]


def test_a_partition_below_zero_is_invalid(at: Coordinating) -> None:
    for refused in each_operation(at, KEY._replace(partition=-1)):
        assert code_of(refused) == E.INVALID_REQUEST
        assert str(refused.error) == "The partition id cannot be a negative number."


def test_what_belongs_to_no_topic_is_unknown(at: Coordinating) -> None:
    initialized(at)
    at.topics.ids.discard(TOPIC_IDS[0])
    assert [code_of(refused) for refused in each_operation(at, KEY)] == [E.UNKNOWN_TOPIC_OR_PARTITION] * 5
    beyond = SharePartitionKey("group", TOPIC_IDS[1], PARTITIONS)
    assert code_of(at.coordinator.initialize(beyond, 0, 0)) == E.UNKNOWN_TOPIC_OR_PARTITION
    assert kinds(at) == "S"


def test_an_answer_waits_until_what_it_says_is_durable() -> None:
    at = Coordinating(MemoryCoordinatorLog(flushes_by_itself=False))
    written, summary = at.coordinator.initialize(KEY, 5, 0), at.coordinator.summary(KEY, 0)
    assert not written.done
    assert not summary.done
    at.log.flush()
    assert code_of(written) == E.NONE
    assert summary.result().state_epoch == 5


def test_a_refused_append_changes_nothing(at: Coordinating) -> None:
    initialized(at)
    before = at.stored()
    at.log.refuses = KafkaError(E.KAFKA_STORAGE_ERROR)
    assert code_of(at.coordinator.write(KEY, 5, 0, -1, 0, [BATCH])) == E.NOT_COORDINATOR
    assert at.stored() == before


def test_the_first_request_waits_for_the_topic_of_the_records(at: Coordinating) -> None:
    at.topics.made = Completion()
    asked = at.coordinator.initialize(KEY, 5, 0)
    assert not asked.done
    at.topics.made.complete(None)
    assert code_of(asked) == E.NONE
    at.topics.refuses = KafkaError(E.COORDINATOR_NOT_AVAILABLE)
    assert code_of(at.coordinator.read(KEY, 0)) == E.COORDINATOR_NOT_AVAILABLE


# --- deleted topics ---------------------------------------------------------------------------------------------------


def remove(at: Coordinating, topic_id: UUID, name: str) -> None:
    at.topics.ids.discard(topic_id)
    at.topics.being_removed[topic_id] = name
    for _ in at.coordinator.on_topic_removed(name):
        pass


def test_the_state_of_a_topic_goes_with_it_and_that_of_others_stays(at: Coordinating) -> None:
    initialized(at)
    initialized(at, OTHER)
    remove(at, TOPIC_IDS[0], "topic")
    assert at.stored().keys() == {OTHER}
    assert kinds(at) == "SST"


def test_the_state_of_a_topic_whose_removal_is_not_durable_stays(at: Coordinating) -> None:
    initialized(at)
    initialized(at, OTHER)
    at.topics.ids.discard(TOPIC_IDS[1])
    at.topics.being_removed[TOPIC_IDS[1]] = "other"
    remove(at, TOPIC_IDS[0], "topic")
    at.time.advance(COLD_MS)
    at.coordinator.step()
    assert at.stored().keys() == {OTHER}


def test_what_a_crash_has_left_of_a_removed_topic_ends_later(at: Coordinating) -> None:
    initialized(at)
    at.topics.ids.discard(TOPIC_IDS[0])
    at.time.advance(COLD_MS)
    at.coordinator.step()
    assert at.stored() == {}
    assert kinds(at)[-1] == "T"


def test_the_states_of_other_topics_are_looked_at_in_slices(at: Coordinating) -> None:
    """There may be a hundred thousand, whatever topic is deleted."""
    for number in range(400):
        initialized(at, SharePartitionKey(f"group-{number}", TOPIC_IDS[0], 0))
    at.topics.being_removed[TOPIC_IDS[1]] = "other"
    steps = list(at.coordinator.on_topic_removed("other"))
    assert len(steps) == 100
    assert len(at.stored()) == 400


# --- cold snapshots, pruning ------------------------------------------------------------------------------------------


def test_a_share_partition_that_does_not_change_keeps_no_log_from_being_pruned(at: Coordinating) -> None:
    initialized(at)
    initialized(at, OTHER)
    for _ in range(UPDATES_PER_SNAPSHOT + 1):
        at.coordinator.write(OTHER, 5, 0, -1, 0, ())
    at.time.advance(COLD_MS)
    at.coordinator.step()
    # Both are that old: the one that changes begins again with its snapshot.
    assert kinds(at)[-2:] == "SS"
    assert at.topics.pruned == [at.log.log_end_offset - 2]
    assert [header.base_offset for header, _ in at.log.batches()] == [at.log.log_end_offset - 2]
    assert at.restarted().stored() == at.stored()


def test_where_nothing_changes_no_snapshot_is_written_again_and_again(at: Coordinating) -> None:
    initialized(at)
    initialized(at, OTHER)
    for _ in range(3):
        at.time.advance(COLD_MS)
        at.coordinator.step()
    assert at.log.log_end_offset == 4
    assert at.topics.pruned == [2]


def test_the_highest_epochs_outlive_the_records_that_had_them(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.read(KEY, 7)
    initialized(at, state_epoch=-1)
    initialized(at, OTHER)
    at.time.advance(PRUNE_MS)
    at.coordinator.step()
    assert at.topics.pruned == []
    at.time.advance(COLD_MS)
    at.coordinator.step()
    assert at.topics.pruned == [4]
    after = at.restarted()
    assert code_of(after.coordinator.read(KEY, 6)) == E.FENCED_LEADER_EPOCH
    assert code_of(after.coordinator.write(KEY, 4, 7, -1, 0, ())) == E.FENCED_STATE_EPOCH


def test_a_young_snapshot_is_not_written_again(at: Coordinating) -> None:
    at.time.advance(COLD_MS - 1)
    initialized(at)
    at.time.advance(1)
    at.coordinator.step()
    assert kinds(at) == "S"


def test_nothing_is_pruned_before_what_makes_it_redundant_is_durable() -> None:
    at = Coordinating(MemoryCoordinatorLog(flushes_by_itself=False))
    at.coordinator.initialize(KEY, 5, 0)
    at.log.flush()
    at.coordinator.initialize(KEY, 6, 0)
    at.time.advance(PRUNE_MS)
    at.coordinator.step()
    assert at.topics.pruned == []
    at.log.flush()
    assert at.topics.pruned == [1]


def test_a_log_of_what_is_all_deleted_is_pruned_whole(at: Coordinating) -> None:
    initialized(at)
    at.coordinator.delete(KEY)
    at.time.advance(PRUNE_MS)
    at.coordinator.step()
    assert at.topics.pruned == [2]
    assert at.restarted().stored() == {}


def test_a_life_that_is_over_prunes_and_writes_nothing(at: Coordinating) -> None:
    initialized(at)
    initialized(at, state_epoch=6)
    at.runtime.lose(0)
    at.time.advance(COLD_MS)
    at.coordinator.step()
    assert at.topics.pruned == []
    assert kinds(at) == "SS"
