"""InitProducerId, AddPartitionsToTxn and verification, cell by cell, as Kafka answers them."""

import pytest

from oncelog.broker.coordinator.transaction.begin_decisions import (
    prepare_add_partitions,
    prepare_init_producer_id,
    verify_partition,
)
from oncelog.broker.coordinator.transaction.metadata import NOTHING_TO_DO, Decision, TransactionMetadata
from oncelog.broker.coordinator.transaction.states import COMPLETED, PREPARED, TransactionState
from oncelog.protocol.errors import ErrorCode
from tests.support.transactions.samples import LOGGED, NOW_MS, PARTITION, STARTED_MS, TIMEOUT_MS, metadata

S, E = TransactionState, ErrorCode
NOTHING_OPEN = (S.EMPTY, *sorted(COMPLETED))


# --- AddPartitionsToTxn, AddOffsetsToTxn, the implicit add ---


def add(
    known: TransactionMetadata | None, *, epoch: int = 3, producer_id: int = 7, pending: bool = False, version: int = 0
) -> Decision:
    return prepare_add_partitions(
        known,
        producer_id,
        epoch,
        [("topic", 1)],
        is_pending=pending,
        transaction_version=version,
        wall_ms=NOW_MS,
    )


def test_adding_partitions_sees_a_pending_transition_before_a_wrong_producer_id() -> None:
    """KAFKA-18660: a client whose id was just rotated must get a retriable error, not one that its id is unknown."""
    assert add(None, pending=True).error is E.INVALID_PRODUCER_ID_MAPPING
    assert add(metadata(), producer_id=8, epoch=9, pending=True).error is E.CONCURRENT_TRANSACTIONS
    assert add(metadata(), producer_id=8, epoch=9).error is E.INVALID_PRODUCER_ID_MAPPING
    for state in LOGGED:
        for epoch in (2, 4):
            assert add(metadata(state), epoch=epoch).error is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", NOTHING_OPEN)
@pytest.mark.parametrize("version", [0, 2])
def test_adding_partitions_opens_a_transaction_that_starts_now(state: TransactionState, version: int) -> None:
    target = add(metadata(state), version=version).target
    assert target is not None
    assert (target.state, target.start_timestamp_ms, target.partitions) == (S.ONGOING, NOW_MS, {("topic", 1)})
    assert target.client_transaction_version == version


def test_adding_partitions_to_an_open_transaction_keeps_its_start_and_what_it_has() -> None:
    target = add(metadata()).target
    assert target is not None
    assert target.start_timestamp_ms == STARTED_MS
    assert target.partitions == {PARTITION, ("topic", 1)}


def test_adding_what_is_already_in_logs_nothing() -> None:
    again = prepare_add_partitions(
        metadata(), 7, 3, [PARTITION], is_pending=False, transaction_version=0, wall_ms=NOW_MS
    )
    assert again == NOTHING_TO_DO


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_nothing_is_added_while_markers_are_on_their_way(state: TransactionState) -> None:
    assert add(metadata(state)) == Decision(E.CONCURRENT_TRANSACTIONS)


# --- InitProducerId ---


def init(
    known: TransactionMetadata | None,
    *,
    producer_id: int = -1,
    epoch: int = -1,
    pending: bool = False,
    fresh: int | None = None,
    timeout_ms: int = 30_000,
    version: int = 1,
) -> Decision:
    return prepare_init_producer_id(
        known,
        "id",
        timeout_ms,
        producer_id,
        epoch,
        is_pending=pending,
        fresh_producer_id=fresh,
        transaction_version=version,
        wall_ms=NOW_MS,
    )


def test_a_new_transactional_id_gets_a_fresh_producer_id_and_epoch_0() -> None:
    assert init(None).needs_producer_id
    target = init(None, fresh=9).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.state) == (9, 0, S.EMPTY)


def test_an_expired_transactional_id_is_recreated_for_a_producer_that_resumes() -> None:
    target = init(None, producer_id=7, epoch=3, fresh=9).target
    assert target is not None and (target.producer_id, target.producer_epoch) == (9, 0)


@pytest.mark.parametrize("state", NOTHING_OPEN)
def test_a_new_instance_gets_the_same_id_and_the_next_epoch(state: TransactionState) -> None:
    target = init(metadata(state, last_producer_epoch=2)).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.state) == (7, 4, S.EMPTY)
    assert (target.timeout_ms, target.last_producer_epoch, target.start_timestamp_ms) == (30_000, -1, -1)


@pytest.mark.parametrize(("version", "last_producer_epoch"), [(1, -1), (2, 3)])
def test_a_new_instance_over_an_open_transaction_fences_and_aborts_it_with_one_bump(
    version: int, last_producer_epoch: int
) -> None:
    """KAFKA-19367: under version 2 it was bumped twice."""
    decision = init(metadata(), version=version)
    assert decision.error is E.CONCURRENT_TRANSACTIONS
    target = decision.target
    assert target is not None
    assert (target.state, target.producer_epoch, target.last_producer_epoch) == (
        S.PREPARE_ABORT,
        4,
        last_producer_epoch,
    )
    assert target.partitions == {PARTITION}


@pytest.mark.parametrize("state", LOGGED)
def test_a_pending_transition_makes_every_instance_retry(state: TransactionState) -> None:
    for producer_id, epoch in ((-1, -1), (7, 3), (8, 0)):
        known = metadata(state)
        assert init(known, producer_id=producer_id, epoch=epoch, pending=True) == Decision(E.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("state", sorted(PREPARED))
def test_a_new_instance_waits_for_markers_but_a_stranger_is_fenced_at_once(state: TransactionState) -> None:
    assert init(metadata(state)) == Decision(E.CONCURRENT_TRANSACTIONS)
    assert init(metadata(state), producer_id=8, epoch=3) == Decision(E.PRODUCER_FENCED)


@pytest.mark.parametrize("state", NOTHING_OPEN)
def test_a_producer_that_resumes_is_bumped_and_its_retry_gets_the_same_answer(state: TransactionState) -> None:
    """KIP-360: the answer to the first try may be lost."""
    bumped = init(metadata(state), producer_id=7, epoch=3).target
    assert bumped is not None
    assert (bumped.producer_epoch, bumped.last_producer_epoch) == (4, 3)
    assert init(bumped, producer_id=7, epoch=3) == NOTHING_TO_DO
    for producer_id, epoch in ((7, 2), (7, 5), (8, 3)):
        assert init(bumped, producer_id=producer_id, epoch=epoch) == Decision(E.PRODUCER_FENCED)


def test_a_retry_that_comes_after_a_whole_transaction_keeps_the_epoch_and_takes_the_new_timeout() -> None:
    target = init(metadata(S.COMPLETE_ABORT, last_producer_epoch=2), producer_id=7, epoch=2).target
    assert target is not None
    assert (target.state, target.producer_epoch, target.timeout_ms) == (S.EMPTY, 3, 30_000)


@pytest.mark.parametrize("epoch", [32_766, 32_767])
def test_an_exhausted_epoch_gives_a_fresh_producer_id(epoch: int) -> None:
    exhausted = metadata(S.COMPLETE_COMMIT, producer_epoch=epoch)
    assert init(exhausted).needs_producer_id
    target = init(exhausted, fresh=9).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.previous_producer_id) == (9, 0, 7)
    assert target.last_producer_epoch == -1


def test_a_producer_that_resumes_over_the_rotation_of_its_id_gets_the_new_pair_again() -> None:
    exhausted = metadata(S.COMPLETE_COMMIT, producer_epoch=32_766, timeout_ms=30_000)
    target = init(exhausted, producer_id=7, epoch=32_766, fresh=9).target
    assert target is not None and target.last_producer_epoch == 32_766
    assert init(target, producer_id=7, epoch=32_766) == NOTHING_TO_DO
    assert init(target, producer_id=7, epoch=32_765) == Decision(E.PRODUCER_FENCED)


def test_a_zombie_does_not_resume_over_the_rotation_that_a_new_instance_caused() -> None:
    target = init(metadata(S.EMPTY, producer_epoch=32_766), fresh=9).target
    assert target is not None
    assert init(target, producer_id=7, epoch=32_766) == Decision(E.PRODUCER_FENCED)


@pytest.mark.parametrize("epoch", [0, 5, 32_765])
def test_an_old_epoch_of_the_rotated_id_does_not_touch_the_open_transaction(epoch: int) -> None:
    rotated = metadata(producer_id=9, previous_producer_id=7)
    assert init(rotated, producer_id=7, epoch=epoch) == Decision(E.PRODUCER_FENCED)


def test_the_id_before_a_rotation_is_forgotten_when_a_transaction_begins_under_the_next_one() -> None:
    """A producer with the old identity may still ask for the new one, and must not abort what was begun with that."""
    rotated = metadata(S.EMPTY, producer_id=9, producer_epoch=0, previous_producer_id=7)
    opened = add(rotated, producer_id=9, epoch=0).target
    assert opened is not None and opened.previous_producer_id == -1
    assert init(opened, producer_id=7, epoch=32_766) == Decision(E.PRODUCER_FENCED)


def test_the_fence_at_the_last_epoch_goes_no_further_than_the_fencing_epoch() -> None:
    """KAFKA-19367, KAFKA-20090: it went negative, or stuck."""
    for epoch in (32_766, 32_767):
        target = init(metadata(producer_epoch=epoch)).target
        assert target is not None and target.producer_epoch == 32_767
        assert init(metadata(producer_epoch=epoch), version=2).needs_producer_id
        rotated = init(metadata(producer_epoch=epoch), version=2, fresh=9).target
        assert rotated is not None and (rotated.producer_epoch, rotated.next_producer_id) == (32_767, 9)


# --- verification ---


@pytest.mark.parametrize(
    ("known", "producer_id", "epoch", "partition", "expected"),
    [
        (None, 7, 3, PARTITION, E.INVALID_PRODUCER_ID_MAPPING),
        (metadata(), 8, 3, PARTITION, E.INVALID_PRODUCER_ID_MAPPING),
        (metadata(), 7, 2, PARTITION, E.PRODUCER_FENCED),
        (metadata(), 7, 4, PARTITION, E.PRODUCER_FENCED),
        (metadata(), 7, 3, PARTITION, E.NONE),
        (metadata(), 7, 3, ("topic", 5), E.TRANSACTION_ABORTABLE),
        (metadata(S.PREPARE_COMMIT), 7, 3, PARTITION, E.CONCURRENT_TRANSACTIONS),
        (metadata(S.PREPARE_ABORT), 7, 3, PARTITION, E.CONCURRENT_TRANSACTIONS),
        (metadata(S.COMPLETE_COMMIT), 7, 3, PARTITION, E.TRANSACTION_ABORTABLE),
        (metadata(S.COMPLETE_ABORT), 7, 3, PARTITION, E.TRANSACTION_ABORTABLE),
        (metadata(S.EMPTY), 7, 3, PARTITION, E.TRANSACTION_ABORTABLE),
    ],
)
def test_a_batch_may_open_a_transaction_only_on_a_partition_that_is_in_it(
    known: TransactionMetadata | None, producer_id: int, epoch: int, partition: tuple[str, int], expected: ErrorCode
) -> None:
    assert verify_partition(known, producer_id, epoch, partition, ()) is expected


def test_a_partition_counts_only_once_its_addition_is_durable() -> None:
    assert verify_partition(metadata(), 7, 3, PARTITION, {PARTITION}) is E.CONCURRENT_TRANSACTIONS
    assert verify_partition(metadata(), 7, 3, PARTITION, {("topic", 1)}) is E.NONE


def test_the_timeout_of_an_open_transaction_is_not_changed_by_what_is_added() -> None:
    target = add(metadata()).target
    assert target is not None and target.timeout_ms == TIMEOUT_MS
