"""Transactions on a machine whose wall clock is set back."""

from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.protocol.errors import ErrorCode as E
from tests.unit.transaction.harness import P0, P1, TIMEOUT_MS, Coordinator


def test_a_transaction_is_counted_once_though_the_clock_was_set_back_since_the_last() -> None:
    coordinator = Coordinator()
    coordinator.end(coordinator.begun(P0), True)
    coordinator.time.wall_offset_ms -= 86_400_000
    pair = coordinator.begun(P0)
    assert coordinator.add(pair, P1).error is E.NONE
    assert coordinator.transitions.opened == 2


def test_a_transaction_from_the_future_has_its_timeout_from_the_restart_and_no_more() -> None:
    """The clock was set back while the broker was down: how long the transaction is open already is unknown."""
    coordinator = Coordinator()
    coordinator.begun(P0)
    coordinator.time.wall_offset_ms -= 30 * 86_400_000
    survivor = coordinator.restarted()
    survivor.time.advance(TIMEOUT_MS - 1)
    assert survivor.known.state is TransactionState.ONGOING
    survivor.time.advance(1)
    assert survivor.known.state is TransactionState.COMPLETE_ABORT
