"""The decision tables of the transaction coordinator (transaction.version 1), cell by cell, as Kafka answers them."""

from dataclasses import replace

import pytest

from broker.coordinator.transaction.decisions import (
    Decision,
    check_partitions,
    prepare_add_partitions,
    prepare_end_transaction,
    prepare_fence,
    prepare_init_producer_id,
)
from broker.coordinator.transaction.metadata import TransactionMetadata, from_record, to_record
from broker.coordinator.transaction.states import (
    VALID_PREVIOUS_STATES,
    IllegalTransition,
    TransactionState,
    check_transition,
    mermaid,
)
from protocol.errors import ErrorCode

S, E = TransactionState, ErrorCode
PARTITION = ("topic", 0)
NOW_MS = 5_000


def metadata(state: TransactionState = S.ONGOING, **changes: object) -> TransactionMetadata:
    known = TransactionMetadata(
        transactional_id="id",
        producer_id=7,
        producer_epoch=3,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset({PARTITION}) if state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT) else frozenset(),
        start_timestamp_ms=-1 if state is S.EMPTY else 1_000,
        last_update_timestamp_ms=2_000,
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def end(
    known: TransactionMetadata | None, commit: bool, *, epoch: int = 3, pid: int = 7, pending: bool = False
) -> Decision:
    return prepare_end_transaction(known, pid, epoch, commit, is_pending=pending, now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (S.PREPARE_COMMIT, E.CONCURRENT_TRANSACTIONS, E.INVALID_TXN_STATE),
        (S.PREPARE_ABORT, E.INVALID_TXN_STATE, E.CONCURRENT_TRANSACTIONS),
        (S.COMPLETE_COMMIT, E.NONE, E.INVALID_TXN_STATE),
        (S.COMPLETE_ABORT, E.INVALID_TXN_STATE, E.NONE),
        (S.EMPTY, E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    ],
)
def test_end_txn_of_a_transaction_that_is_not_open_changes_nothing(
    state: TransactionState, on_commit: ErrorCode, on_abort: ErrorCode
) -> None:
    for commit, expected in ((True, on_commit), (False, on_abort)):
        assert end(metadata(state), commit) == Decision(expected)


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_end_txn_of_an_open_transaction_prepares_its_end_with_the_same_partitions(
    commit: bool, state: TransactionState
) -> None:
    target = end(metadata(), commit).target
    assert target == metadata(state, last_update_timestamp_ms=NOW_MS)


def test_end_txn_looks_at_the_producer_before_the_pending_transition() -> None:
    assert end(None, True).error is E.INVALID_PRODUCER_ID_MAPPING
    assert end(metadata(), True, pid=8, pending=True).error is E.INVALID_PRODUCER_ID_MAPPING
    assert end(metadata(), True, epoch=2, pending=True).error is E.PRODUCER_FENCED
    assert end(metadata(), True, epoch=4).error is E.PRODUCER_FENCED
    assert end(metadata(), True, pending=True).error is E.CONCURRENT_TRANSACTIONS


def add(known: TransactionMetadata | None, *, epoch: int = 3, pid: int = 7, pending: bool = False) -> Decision:
    return prepare_add_partitions(known, pid, epoch, [("topic", 1)], is_pending=pending, now_ms=NOW_MS)


def test_adding_partitions_sees_a_pending_transition_before_a_wrong_producer_id() -> None:
    """KAFKA-18660: a client whose id was just rotated must be told to try again, not that its id is unknown."""
    assert add(metadata(), pid=8, pending=True).error is E.CONCURRENT_TRANSACTIONS
    assert add(metadata(), pid=8).error is E.INVALID_PRODUCER_ID_MAPPING
    assert add(None).error is E.INVALID_PRODUCER_ID_MAPPING
    for epoch in (2, 4):
        assert add(metadata(), epoch=epoch).error is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_adding_partitions_opens_a_transaction_that_starts_now(state: TransactionState) -> None:
    target = add(metadata(state)).target
    assert target is not None
    assert (target.state, target.start_timestamp_ms) == (S.ONGOING, NOW_MS)
    assert target.partitions == {("topic", 1)}


def test_adding_partitions_to_an_open_transaction_keeps_its_start_and_what_it_has() -> None:
    target = add(metadata()).target
    assert target is not None
    assert target.start_timestamp_ms == 1_000
    assert target.partitions == {PARTITION, ("topic", 1)}


def test_adding_what_is_already_in_logs_nothing() -> None:
    again = prepare_add_partitions(metadata(), 7, 3, [PARTITION], is_pending=False, now_ms=NOW_MS)
    assert again == Decision()


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_nothing_is_added_while_markers_are_on_their_way(state: TransactionState) -> None:
    assert add(metadata(state)).error is E.CONCURRENT_TRANSACTIONS


def init(
    known: TransactionMetadata | None,
    *,
    pid: int = -1,
    epoch: int = -1,
    pending: bool = False,
    fresh: int | None = None,
) -> Decision:
    return prepare_init_producer_id(
        known, "id", 30_000, pid, epoch, is_pending=pending, fresh_producer_id=fresh, now_ms=NOW_MS
    )


def test_a_new_transactional_id_gets_a_fresh_producer_id_and_epoch_0() -> None:
    assert init(None).needs_producer_id
    target = init(None, fresh=9).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.state) == (9, 0, S.EMPTY)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_a_new_instance_gets_the_same_id_and_the_next_epoch(state: TransactionState) -> None:
    target = init(metadata(state)).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.state) == (7, 4, S.EMPTY)
    assert (target.timeout_ms, target.last_producer_epoch) == (30_000, -1)


def test_a_new_instance_over_an_open_transaction_fences_and_aborts_it_first() -> None:
    decision = init(metadata())
    assert decision.error is E.CONCURRENT_TRANSACTIONS
    assert decision.target == prepare_fence(metadata(), NOW_MS)
    assert decision.target is not None and decision.target.producer_epoch == 4


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_new_instance_waits_for_markers(state: TransactionState) -> None:
    assert init(metadata(state)) == Decision(E.CONCURRENT_TRANSACTIONS)
    assert init(metadata(S.EMPTY), pending=True) == Decision(E.CONCURRENT_TRANSACTIONS)


def test_a_producer_that_resumes_is_bumped_and_its_retry_gets_the_same_answer() -> None:
    """KIP-360: the answer to the first try may be lost."""
    bumped = init(metadata(S.COMPLETE_ABORT), pid=7, epoch=3).target
    assert bumped is not None
    assert (bumped.producer_epoch, bumped.last_producer_epoch) == (4, 3)
    assert init(bumped, pid=7, epoch=3) == Decision()
    assert init(bumped, pid=7, epoch=2).error is E.PRODUCER_FENCED
    assert init(bumped, pid=8, epoch=3).error is E.PRODUCER_FENCED


def test_an_exhausted_epoch_gives_a_fresh_producer_id() -> None:
    exhausted = metadata(S.COMPLETE_COMMIT, producer_epoch=32_766)
    assert init(exhausted).needs_producer_id
    target = init(exhausted, fresh=9).target
    assert target is not None
    assert (target.producer_id, target.producer_epoch, target.previous_producer_id) == (9, 0, 7)
    assert init(target, pid=7, epoch=32_766).error is E.NONE


@pytest.mark.parametrize(
    ("known", "pid", "epoch", "partitions", "expected"),
    [
        (None, 7, 3, [PARTITION], E.INVALID_PRODUCER_ID_MAPPING),
        (metadata(), 8, 3, [PARTITION], E.INVALID_PRODUCER_ID_MAPPING),
        (metadata(), 7, 2, [PARTITION], E.PRODUCER_FENCED),
        (metadata(), 7, 3, [PARTITION], E.NONE),
        (metadata(), 7, 3, [("topic", 5)], E.TRANSACTION_ABORTABLE),
        (metadata(S.PREPARE_COMMIT), 7, 3, [PARTITION], E.CONCURRENT_TRANSACTIONS),
        (metadata(S.COMPLETE_COMMIT), 7, 3, [PARTITION], E.TRANSACTION_ABORTABLE),
    ],
)
def test_a_batch_may_open_a_transaction_only_on_a_partition_that_is_in_it(
    known: TransactionMetadata | None, pid: int, epoch: int, partitions: list[tuple[str, int]], expected: ErrorCode
) -> None:
    assert check_partitions(known, pid, epoch, partitions, ()) is expected


def test_a_partition_counts_only_once_its_addition_is_durable() -> None:
    assert check_partitions(metadata(), 7, 3, [PARTITION], [PARTITION]) is E.CONCURRENT_TRANSACTIONS


def test_only_the_moves_of_the_table_exist() -> None:
    for target in TransactionState:
        for previous in TransactionState:
            if previous in VALID_PREVIOUS_STATES[target]:
                check_transition(previous, target)
            else:
                with pytest.raises(IllegalTransition):
                    check_transition(previous, target)


def test_the_diagram_has_every_move() -> None:
    diagram = mermaid()
    moves = sum(len(sources) for sources in VALID_PREVIOUS_STATES.values())
    assert diagram.count(" --> ") == moves + 2
    assert "Ongoing --> PrepareCommit" in diagram


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT])
def test_metadata_survives_its_record(state: TransactionState) -> None:
    assert from_record(to_record(metadata(state))) == ("id", metadata(state))
