"""One log line and one count for each transition of a transaction.

Owns: the text and which counter grows. Called by the transaction coordinator once a transition is durable.
"""

from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.broker.observability.metrics import Metrics
from oncelog.protocol.errors import ErrorCode


class TransitionLog:
    def __init__(self, log: Any, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def on_transition(self, metadata: TransactionMetadata, *, opens: bool) -> None:
        match metadata.state:
            case TransactionState.ONGOING if opens:
                self._metrics.transactions_started += 1
            case TransactionState.COMPLETE_COMMIT:
                self._metrics.transactions_committed += 1
            case TransactionState.COMPLETE_ABORT:
                self._metrics.transactions_aborted += 1
        self._log.info(
            f"transaction.{metadata.state.name.lower()}",
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            producer_epoch=metadata.producer_epoch,
            partitions=len(metadata.partitions),
        )

    def on_fenced(self, transactional_id: str, error: ErrorCode) -> None:
        self._metrics.producers_fenced += 1
        self._log.info("producer.fenced", transactional_id=transactional_id, error=error.name)
