"""Additions to a transaction between their append and their sync: what is answered, what waits, what times out."""

from functools import partial

import pytest

from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.coordinator.transaction.timeouts import RETRY_MS
from oncelog.protocol.errors import ErrorCode
from tests.unit.transaction.harness import P0, P1, TIMEOUT_MS, Coordinator

E = ErrorCode
VERSIONS = pytest.mark.parametrize("version", [0, 2])


@VERSIONS
def test_from_append_to_flush_every_request_about_the_id_has_to_retry(version: int) -> None:
    coordinator = Coordinator()
    pair = coordinator.init().pair
    coordinator.log.flushes_by_itself = False
    coordinator.rounds_are_whole = False
    adding = coordinator.add(pair, P0, version=version)
    assert not adding.is_answered
    refused = [
        coordinator.init(),
        coordinator.init(pair),
        coordinator.add(pair, P1),
        coordinator.end(pair, True, version=version),
        coordinator.end(pair, False, version=version),
    ]
    coordinator.log.flush()
    assert {asked.error for asked in refused} == {E.CONCURRENT_TRANSACTIONS}
    assert adding.error is E.NONE
    assert coordinator.add(pair, P0).error is E.NONE


@VERSIONS
@pytest.mark.parametrize("committed", [True, False])
def test_where_rounds_are_whole_an_addition_is_answered_once_appended_and_an_end_is_durable_with_it(
    version: int, committed: bool
) -> None:
    coordinator = Coordinator()
    pair = coordinator.init().pair
    coordinator.log.flushes_by_itself = False
    for partition in (P0, P1, P0):
        assert coordinator.add(pair, partition, version=version).error is E.NONE
    assert coordinator.verify(pair, P0, P1) is E.NONE
    ending = coordinator.end(pair, committed, version=version)
    again = coordinator.end(pair, committed, version=version)
    assert coordinator.logged()[-1] == ("PrepareCommit" if committed else "PrepareAbort")
    assert not ending.is_answered
    coordinator.log.flush()
    assert (ending.error, again.error) == (E.NONE, E.CONCURRENT_TRANSACTIONS)
    late = coordinator.add(ending.pair, P0, version=version)
    coordinator.log.flush()
    assert late.error is E.CONCURRENT_TRANSACTIONS, "until COMPLETE"


def test_a_new_instance_aborts_the_transaction_of_an_addition_that_is_not_durable() -> None:
    coordinator = Coordinator()
    pair = coordinator.init().pair
    coordinator.log.flushes_by_itself = False
    assert coordinator.add(pair, P0).error is E.NONE
    initialized = coordinator.init()
    assert coordinator.logged()[-1] == "PrepareAbort"
    assert not initialized.is_answered
    coordinator.log.flushes_by_itself = True
    coordinator.log.flush()
    assert initialized.error is E.CONCURRENT_TRANSACTIONS
    assert coordinator.known.state is TransactionState.COMPLETE_ABORT


def test_a_timeout_aborts_what_is_not_durable_yet_and_an_addition_after_it_leaves_no_timer() -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.log.flushes_by_itself = False
    assert coordinator.add(pair, P1).error is E.NONE
    coordinator.time.advance(TIMEOUT_MS)
    late = coordinator.add(pair, ("topic", 2))
    coordinator.log.flushes_by_itself = True
    coordinator.log.flush()
    assert late.error is E.CONCURRENT_TRANSACTIONS
    coordinator.time.advance(RETRY_MS)
    assert coordinator.known.state is TransactionState.COMPLETE_ABORT
    coordinator.time.advance(2 * TIMEOUT_MS)
    assert coordinator.logged().count("PrepareAbort") == 1


@pytest.mark.parametrize(("is_whole", "is_other_node"), [(False, False), (True, True)])
def test_a_batch_that_does_not_share_its_round_may_not_come_before_the_addition_of_its_partition_is_durable(
    is_whole: bool, is_other_node: bool
) -> None:
    coordinator = Coordinator()
    pair = coordinator.begun(P0)
    coordinator.log.flushes_by_itself = False
    coordinator.rounds_are_whole = is_whole
    coordinator.add(pair, P1)
    verify = partial(coordinator.verify, pair, is_other_node=is_other_node)
    assert verify(P0) is E.NONE
    assert verify(P1) is E.CONCURRENT_TRANSACTIONS
    assert verify(P0, P1) is E.CONCURRENT_TRANSACTIONS
    coordinator.log.flush()
    assert verify(P0, P1) is E.NONE
