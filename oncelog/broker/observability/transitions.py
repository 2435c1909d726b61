"""One count, and at level debug one log line, for each transition of a transaction; at info a summary once a minute.

Owns: the text and which counter grows. Called by the transaction coordinator once a transition is durable. Debug, as in
Kafka: a transaction has four transitions, and at info their lines took a sixth of its processor time (measured).
"""

from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.logging import DEBUG, TRANSACTIONS, logger_of
from oncelog.broker.observability.metrics import Metrics
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.schedule import Schedule
from oncelog.protocol.errors import ErrorCode

SUMMARY_MS = 60_000
_MS = 1_000_000


class TransitionLog:
    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log = logger_of(log, TRANSACTIONS)
        self._metrics = metrics

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        state = metadata.state
        if state is TransactionState.ONGOING:
            self._metrics.transactions_started += opens
        elif state is TransactionState.COMPLETE_COMMIT:
            self._metrics.transactions_committed += 1
            self._observe("committed", metadata)
        elif state is TransactionState.COMPLETE_ABORT:
            self._metrics.transactions_aborted += 1
            self._observe("aborted", metadata)
        if self._log.is_enabled_for(DEBUG):
            self._log.debug(
                f"transaction.{state.name.lower()}",
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                partitions=len(metadata.partitions),
            )

    def _observe(self, result: str, metadata: TransactionMetadata) -> None:
        # Both are wall times, of which the second is never the lower one; a clock that was set forward counts.
        duration_ms = metadata.last_update_timestamp_ms - metadata.start_timestamp_ms
        self._metrics.transaction_seconds[result].observe(duration_ms * _MS)

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None:
        self._metrics.producers_fenced[error.name] += 1
        self._log.info("producer.fenced", transactional_id=transactional_id, error=error.name)


class TransactionSummary:
    """Reports the counts of transactions since the last summary, if there were any."""

    def __init__(self, log: Any, metrics: Metrics, clock: Clock) -> None:
        self._log = logger_of(log, TRANSACTIONS)
        self._metrics = metrics
        self._due = Schedule(clock, first_in_ms=SUMMARY_MS)
        self._reported = self._counts()

    def step(self) -> None:
        """Report when it is due; called once a second."""
        if self._due.take(SUMMARY_MS):
            self.report()

    def report(self) -> None:
        counts = self._counts()
        grown = {name: count - self._reported[name] for name, count in counts.items()}
        if any(grown.values()):
            self._reported = counts
            self._log.info("transactions.summary", **grown)

    def _counts(self) -> dict[str, int]:
        metrics = self._metrics
        return {
            "started": metrics.transactions_started,
            "committed": metrics.transactions_committed,
            "aborted": metrics.transactions_aborted,
            "fenced": metrics.producers_fenced.total(),
        }
