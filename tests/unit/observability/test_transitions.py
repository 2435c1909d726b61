"""What is counted and logged of a transaction's transitions."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.logging import start_logging
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.observability.transitions import TransitionLog
from oncelog.broker.ports import WallMs


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def metadata(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata("orders", 7, 3, 60_000, state, frozenset({("topic", 0)}), WallMs(5), WallMs(5))


def test_a_transition_is_one_line_at_debug_and_none_at_info_also_when_the_level_changes() -> None:
    stream = io.StringIO()
    log = start_logging("info", stream)
    transitions = TransitionLog(log, Metrics())
    transitions.on_transition(metadata(TransactionState.PREPARE_COMMIT), opens=False)
    log.level_switch.set("debug")
    transitions.on_transition(metadata(TransactionState.COMPLETE_COMMIT), opens=False)
    log.level_switch.set("info")
    transitions.on_transition(metadata(TransactionState.ONGOING), opens=True)
    (line,) = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (line["event"], line["level"]) == ("transaction.complete_commit", "debug")
    assert (line["transactional_id"], line["producer_id"], line["producer_epoch"], line["partitions"]) == (
        ("orders", 7, 3, 1)
    )


def test_transactions_are_counted_when_they_begin_and_when_they_end() -> None:
    metrics = Metrics()
    transitions = TransitionLog(start_logging("info", io.StringIO()), metrics)
    for opens in (True, False):
        transitions.on_transition(metadata(TransactionState.ONGOING), opens=opens)
    for state in (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT, TransactionState.COMPLETE_COMMIT):
        transitions.on_transition(metadata(state), opens=False)
    counted = metrics.transactions_started, metrics.transactions_committed, metrics.transactions_aborted
    assert counted == (1, 1, 1)
