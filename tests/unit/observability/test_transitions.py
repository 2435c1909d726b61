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
from oncelog.broker.observability.transitions import SUMMARY_MS, TransactionSummary, TransitionLog
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode
from tests.fakes.virtual_time import VirtualTime


@pytest.fixture(autouse=True)
def _structlog_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def metadata(state: TransactionState) -> TransactionMetadata:
    return TransactionMetadata("orders", 7, 3, 60_000, state, frozenset({("topic", 0)}), WallMs(5), WallMs(12))


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
    seconds = metrics.transaction_seconds
    assert (seconds["aborted"].sum_ns, seconds["committed"].sum_ns) == (7_000_000, 7_000_000)
    assert [index for index, count in enumerate(seconds["committed"].counts) if count] == [1], "up to 10 ms"


def test_a_summary_is_written_once_a_minute_and_only_if_something_happened() -> None:
    stream, time, metrics = io.StringIO(), VirtualTime(), Metrics()
    log = start_logging("info", stream)
    transitions, summary = TransitionLog(log, metrics), TransactionSummary(log, metrics, time)
    for second in range(4 * SUMMARY_MS // 1000):
        if 60 < second < 110:
            transitions.on_transition(metadata(TransactionState.ONGOING), opens=True)
            transitions.on_transition(metadata(TransactionState.COMPLETE_COMMIT), opens=False)
        time.advance(1_000)
        summary.step()
    metrics.producers_fenced[ErrorCode.PRODUCER_FENCED.name] += 1
    summary.report()
    first, last = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["event"], first["level"]) == ("transactions.summary", "info")
    assert [first[name] for name in ("started", "committed", "aborted", "fenced")] == [49, 49, 0, 0]
    assert [last[name] for name in ("started", "committed", "aborted", "fenced")] == [0, 0, 0, 1]
