"""One count, and at level debug one log line, for each transition of a transaction.

Owns: the text and which counter grows. Called by the transaction coordinator once a transition is durable. Debug, as in
Kafka: a transaction has four transitions, and at info their lines took a sixth of its processor time (measured).
"""

from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.logging import DEBUG
from oncelog.broker.observability.metrics import Metrics
from oncelog.protocol.errors import ErrorCode


class TransitionLog:
    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        state = metadata.state
        if state is TransactionState.ONGOING:
            self._metrics.transactions_started += opens
        elif state is TransactionState.COMPLETE_COMMIT:
            self._metrics.transactions_committed += 1
        elif state is TransactionState.COMPLETE_ABORT:
            self._metrics.transactions_aborted += 1
        if self._log.is_enabled_for(DEBUG):
            self._log.debug(
                f"transaction.{state.name.lower()}",
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                producer_epoch=metadata.producer_epoch,
                partitions=len(metadata.partitions),
            )

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None:
        self._metrics.producers_fenced += 1
        self._log.info("producer.fenced", transactional_id=transactional_id, error=error.name)
