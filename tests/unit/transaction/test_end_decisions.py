"""EndTxn under both protocols, cell by cell, as Kafka answers it; the aborts of the coordinator itself."""

import pytest

from oncelog.broker.coordinator.transaction.end_decisions import (
    prepare_abort_by_coordinator,
    prepare_end_transaction_v1,
    prepare_end_transaction_v2,
)
from oncelog.broker.coordinator.transaction.metadata import (
    Decision,
    ProducerIdAndEpoch,
    TransactionMetadata,
    check_step,
)
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.protocol.errors import ErrorCode
from tests.support.transactions.samples import LOGGED, NOW_MS, PARTITION, STARTED_MS, metadata

S, E = TransactionState, ErrorCode
CURRENT, RETRY = 3, 2
BOTH = pytest.mark.parametrize("commit", [True, False])


def end_v1(
    known: TransactionMetadata | None, commit: bool, *, epoch: int = 3, producer_id: int = 7, pending: bool = False
) -> Decision:
    return prepare_end_transaction_v1(known, producer_id, epoch, commit, is_pending=pending, wall_ms=NOW_MS)


def end_v2(
    known: TransactionMetadata | None,
    commit: bool,
    *,
    epoch: int = 3,
    producer_id: int = 7,
    pending: bool = False,
    fresh: int | None = None,
) -> Decision:
    return prepare_end_transaction_v2(
        known, producer_id, epoch, commit, is_pending=pending, fresh_producer_id=fresh, wall_ms=NOW_MS
    )


# --- version 1 ---


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
        assert end_v1(metadata(state), commit) == Decision(expected)


@pytest.mark.parametrize(("commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
def test_end_txn_of_an_open_transaction_prepares_its_end_with_the_same_partitions(
    commit: bool, state: TransactionState
) -> None:
    assert end_v1(metadata(), commit).target == metadata(state, last_update_timestamp_ms=NOW_MS)


@BOTH
@pytest.mark.parametrize("state", LOGGED)
def test_version_1_looks_at_the_producer_before_the_pending_transition(state: TransactionState, commit: bool) -> None:
    known = metadata(state)
    assert end_v1(None, commit, pending=True) == Decision(E.INVALID_PRODUCER_ID_MAPPING)
    assert end_v1(known, commit, producer_id=8, pending=True) == Decision(E.INVALID_PRODUCER_ID_MAPPING)
    for epoch in (2, 4):
        assert end_v1(known, commit, epoch=epoch, pending=True) == Decision(E.PRODUCER_FENCED)
    assert end_v1(known, commit, pending=True) == Decision(E.CONCURRENT_TRANSACTIONS)


# --- version 2 ---

PREPARE_COMMIT, PREPARE_ABORT = "PrepareCommit", "PrepareAbort"
TABLE_V2: dict[TransactionState, tuple[ErrorCode | str, ...]] = {
    # state: commit at the current epoch, commit again, abort at the current epoch, abort again
    S.EMPTY: (E.INVALID_TXN_STATE, E.PRODUCER_FENCED, PREPARE_ABORT, E.PRODUCER_FENCED),
    S.ONGOING: (PREPARE_COMMIT, E.PRODUCER_FENCED, PREPARE_ABORT, E.PRODUCER_FENCED),
    S.PREPARE_COMMIT: (E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS, E.PRODUCER_FENCED, E.INVALID_TXN_STATE),
    S.PREPARE_ABORT: (E.PRODUCER_FENCED, E.INVALID_TXN_STATE, E.PRODUCER_FENCED, E.CONCURRENT_TRANSACTIONS),
    S.COMPLETE_COMMIT: (E.INVALID_TXN_STATE, E.NONE, PREPARE_ABORT, E.INVALID_TXN_STATE),
    S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE, PREPARE_ABORT, E.NONE),
}
CELLS_V2 = [
    (state, commit, epoch, row[column])
    for state, row in TABLE_V2.items()
    for column, (commit, epoch) in enumerate(((True, CURRENT), (True, RETRY), (False, CURRENT), (False, RETRY)))
]


@pytest.mark.parametrize(("state", "commit", "epoch", "expected"), CELLS_V2)
def test_version_2_distinguishes_a_retry_from_the_next_end_by_its_epoch(
    state: TransactionState, commit: bool, epoch: int, expected: ErrorCode | str
) -> None:
    decision = end_v2(metadata(state), commit, epoch=epoch)
    if isinstance(expected, ErrorCode):
        assert decision == Decision(expected)
        return
    target = decision.target
    assert target is not None and decision.error is E.NONE
    assert target.state.kafka_name == expected
    assert (target.producer_epoch, target.last_producer_epoch) == (CURRENT + 1, CURRENT)
    assert target.producer == ProducerIdAndEpoch(7, CURRENT + 1)
    assert target.partitions == metadata(state).partitions
    assert target.client_transaction_version == 2
    check_step(metadata(state), target)


@BOTH
@pytest.mark.parametrize("state", LOGGED)
def test_version_2_fences_every_other_epoch_and_refuses_every_other_producer_id(
    state: TransactionState, commit: bool
) -> None:
    for epoch in (0, RETRY - 1, CURRENT + 1, 32_766, 32_767):
        assert end_v2(metadata(state), commit, epoch=epoch) == Decision(E.PRODUCER_FENCED)
    for epoch in (RETRY, CURRENT):
        refused = end_v2(metadata(state), commit, epoch=epoch, producer_id=8)
        assert refused == Decision(E.INVALID_PRODUCER_ID_MAPPING)
    assert end_v2(None, commit) == Decision(E.INVALID_PRODUCER_ID_MAPPING)


@BOTH
@pytest.mark.parametrize("state", LOGGED)
def test_version_2_sees_a_pending_transition_before_anything_about_the_producer(
    state: TransactionState, commit: bool
) -> None:
    """KAFKA-18660: the client may already have the id that the transition rotates to."""
    for producer_id, epoch in ((7, CURRENT), (7, RETRY), (8, 0)):
        decision = end_v2(metadata(state), commit, producer_id=producer_id, epoch=epoch, pending=True)
        assert decision == Decision(E.CONCURRENT_TRANSACTIONS)


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_abort_of_nothing_starts_and_ends_now(state: TransactionState) -> None:
    target = end_v2(metadata(state), False).target
    assert target is not None
    assert (target.start_timestamp_ms, target.partitions) == (NOW_MS, frozenset())


def test_an_end_keeps_the_start_of_what_it_ends() -> None:
    target = end_v2(metadata(), True).target
    assert target is not None and target.start_timestamp_ms == STARTED_MS


@BOTH
def test_the_last_epoch_ends_with_a_new_producer_id_that_complete_takes_up(commit: bool) -> None:
    last = metadata(producer_epoch=32_766)
    assert end_v2(last, commit, epoch=32_766).needs_producer_id
    prepared = end_v2(last, commit, epoch=32_766, fresh=9).target
    assert prepared is not None
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (7, 32_767, 9)
    assert prepared.producer == ProducerIdAndEpoch(9, 0), "the client is told at once"
    completed = prepared.to_completed(NOW_MS)
    check_step(prepared, completed)
    assert (completed.producer_id, completed.producer_epoch) == (9, 0)
    assert (completed.previous_producer_id, completed.next_producer_id) == (7, -1)
    # The answer was lost: the client asks again with what it has.
    assert end_v2(completed, commit, producer_id=7, epoch=32_766) == Decision(E.NONE)
    assert end_v2(completed, not commit, producer_id=7, epoch=32_766) == Decision(E.INVALID_TXN_STATE)
    assert end_v2(completed, commit, producer_id=7, epoch=32_765) == Decision(E.INVALID_PRODUCER_ID_MAPPING)


def test_once_the_rotated_id_is_used_the_old_one_is_no_retry_any_more() -> None:
    rotated = metadata(S.ONGOING, producer_id=9, producer_epoch=0, previous_producer_id=7)
    assert end_v2(rotated, True, producer_id=7, epoch=32_766) == Decision(E.PRODUCER_FENCED)
    gone_on = rotated._replace(producer_epoch=1, state=S.COMPLETE_COMMIT, partitions=frozenset())
    assert end_v2(gone_on, True, producer_id=7, epoch=32_766) == Decision(E.INVALID_PRODUCER_ID_MAPPING)


# --- the coordinator's own aborts ---


def abort(known: TransactionMetadata, version: int, fresh: int | None = None) -> TransactionMetadata | None:
    return prepare_abort_by_coordinator(
        known, transaction_version=version, fresh_producer_id=fresh, wall_ms=NOW_MS
    ).target


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_coordinator_aborts_with_the_next_epoch(version: int) -> None:
    target = abort(metadata(), version)
    assert target is not None
    assert (target.state, target.producer_epoch, target.partitions) == (S.PREPARE_ABORT, 4, {PARTITION})
    assert target.client_transaction_version == version
    check_step(metadata(), target)


def test_after_a_timeout_version_1_fences_the_producer_for_good_and_version_2_lets_it_continue() -> None:
    """KIP-588: under version 2 the late abort counts as a retry, the late commit gets an error that it came too
    late.
    """
    for version, on_abort, on_commit in (
        (1, E.PRODUCER_FENCED, E.PRODUCER_FENCED),
        (2, E.NONE, E.INVALID_TXN_STATE),
    ):
        prepared = abort(metadata(), version)
        assert prepared is not None
        completed = prepared.to_completed(NOW_MS)
        end = end_v1 if version == 1 else end_v2
        assert end(completed, False, epoch=3) == Decision(on_abort)
        assert end(completed, True, epoch=3) == Decision(on_commit)


def test_after_a_fence_of_version_1_no_earlier_epoch_counts_as_a_retry() -> None:
    target = abort(metadata(last_producer_epoch=2), 1)
    assert target is not None and target.last_producer_epoch == -1


def test_an_abort_never_overflows_the_epoch() -> None:
    """A client may have made the fencing epoch up: 32,767 + 1 does not fit a marker (KAFKA-20090)."""
    for epoch in (32_766, 32_767):
        target = abort(metadata(producer_epoch=epoch), 1)
        assert target is not None and target.producer_epoch == 32_767
        check_step(metadata(producer_epoch=epoch), target)
        target = abort(metadata(producer_epoch=epoch), 2, fresh=9)
        assert target is not None and (target.producer_epoch, target.next_producer_id) == (32_767, 9)
        assert target.to_completed(NOW_MS).producer == ProducerIdAndEpoch(9, 0)
