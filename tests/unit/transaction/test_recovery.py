"""A crash after any record: what was prepared is finished so, what was open stays open until its time is over."""

import pytest

from oncelog.broker.coordinator.transaction.metadata import ProducerIdAndEpoch
from oncelog.broker.coordinator.transaction.records import from_record
from oncelog.broker.coordinator.transaction.states import PREPARED, TransactionState
from oncelog.protocol.errors import ErrorCode
from tests.unit.transaction.harness import P0, P1, TIMEOUT_MS, Coordinator, outcomes

LIFE = ["Empty", "Ongoing", "Ongoing", "Prepare", "Complete"]


def lived(version: int, commit: bool) -> Coordinator:
    """A coordinator that has seen one transaction from its begin to its end."""
    coordinator = Coordinator(level=max(1, version))
    pair = coordinator.init().pair
    for partition in (P0, P1):
        coordinator.add(pair, partition, version=version)
    coordinator.end(pair, commit, version=version)
    assert [state.removesuffix("Commit").removesuffix("Abort") for state in coordinator.logged()] == LIFE
    return coordinator


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("record_count", range(1, len(LIFE) + 1))
def test_the_outcome_is_fixed_by_prepare_and_by_nothing_else(version: int, commit: bool, record_count: int) -> None:
    before = lived(version, commit)
    survivor = before.restarted(record_count)
    last = from_record(before.log.records[record_count - 1])[1]
    assert last is not None
    if last.state in PREPARED:
        assert survivor.logged()[-1] == ("CompleteCommit" if commit else "CompleteAbort")
        (sent,) = survivor.markers.sent
        assert (sent.marker.committed, list(sent.partitions)) == (commit, [P0, P1])
        assert (sent.marker.producer_epoch, sent.marker.transaction_version) == (last.producer_epoch, version)
    else:
        assert survivor.markers.sent == []
        assert survivor.known == last
    survivor.time.advance(2 * TIMEOUT_MS)
    if last.state is TransactionState.ONGOING:
        # No end was decided: only its time ends it, and never with a commit.
        assert outcomes(survivor.markers.sent) == {False}
    assert survivor.core.open_count == 0


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("record_count", range(1, len(LIFE) + 1))
def test_a_client_whose_answer_was_lost_in_the_crash_asks_again_and_learns_the_outcome(
    version: int, commit: bool, record_count: int
) -> None:
    survivor = lived(version, commit).restarted(record_count)
    pair = ProducerIdAndEpoch(1_000, 0)
    again = survivor.end(pair, commit, version=version)
    if record_count == 1:
        if version == 2 and not commit:
            assert again.pair == ProducerIdAndEpoch(1_000, 1), "an abort of nothing is legal"
        else:
            assert again.error is ErrorCode.INVALID_TXN_STATE
        return
    assert again.pair == ProducerIdAndEpoch(1_000, 1 if version == 2 else 0)
    assert survivor.logged()[-1] == ("CompleteCommit" if commit else "CompleteAbort")
    assert outcomes(survivor.markers.sent) <= {commit}


@pytest.mark.parametrize("commit", [True, False])
def test_a_crash_between_two_markers_repeats_them_all(commit: bool) -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    coordinator.end(coordinator.begun(P0, P1), commit)
    coordinator.markers.release(ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR)
    survivor = coordinator.restarted()
    assert list(survivor.markers.sent[0].partitions) == [P0, P1]
    assert outcomes(survivor.markers.sent) == {commit}


def test_while_the_markers_of_a_start_are_on_their_way_the_id_is_pending() -> None:
    coordinator = Coordinator()
    coordinator.markers.holds = True
    pair = coordinator.begun(P0)
    coordinator.end(pair, True)
    survivor = Coordinator(topic=coordinator.crashed())
    survivor.markers.holds = True
    survivor.start()
    for asked in (
        survivor.init(),
        survivor.end(pair, True),
        survivor.end(pair, False),
        survivor.add(pair, P1),
    ):
        assert asked.error is ErrorCode.CONCURRENT_TRANSACTIONS
    survivor.markers.release()
    assert survivor.end(pair, True).error is ErrorCode.NONE


def test_a_fence_is_not_undone_by_a_crash() -> None:
    coordinator = Coordinator()
    old = coordinator.begun(P0)
    coordinator.markers.holds = True
    coordinator.init()
    survivor = coordinator.restarted()
    assert survivor.known.state is TransactionState.COMPLETE_ABORT
    assert survivor.end(old, True).error is ErrorCode.PRODUCER_FENCED
    assert survivor.init().pair.producer_epoch == old.producer_epoch + 2


def test_a_fence_that_was_not_durable_has_not_happened() -> None:
    coordinator = Coordinator()
    old = coordinator.begun(P0)
    coordinator.log.flushes_by_itself = False
    fencing = coordinator.init()
    assert not fencing.is_answered and coordinator.markers.sent == []
    survivor = coordinator.restarted()
    survivor.log.flushes_by_itself = True
    assert survivor.end(old, True).error is ErrorCode.NONE


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_transaction_survives_a_change_of_the_feature_level(before: int, after: int) -> None:
    coordinator = Coordinator(level=before)
    version = 2 if before == 2 else 0
    pair = coordinator.begun(P0, version=version)
    survivor = coordinator.restarted(level=after)
    ended = survivor.end(pair, True, version=version).pair
    assert ended.producer_epoch == (1 if before == 2 else 0)
    assert survivor.logged()[-1] == "CompleteCommit"
