"""A transactional id in any state, for the tests of decisions."""

from typing import Any

from oncelog.broker.coordinator.transaction.metadata import TransactionMetadata
from oncelog.broker.coordinator.transaction.states import PREPARED, TransactionState

PRODUCER_ID, PRODUCER_EPOCH = 7, 3
PARTITION = ("topic", 0)
STARTED_MS, UPDATED_MS, NOW_MS = 1_000, 2_000, 5_000
TIMEOUT_MS = 60_000

LOGGED = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)
"""The states that a log holds."""


def metadata(state: TransactionState = TransactionState.ONGOING, **changes: Any) -> TransactionMetadata:
    has_partitions = state is TransactionState.ONGOING or state in PREPARED
    known = TransactionMetadata(
        transactional_id="id",
        producer_id=PRODUCER_ID,
        producer_epoch=PRODUCER_EPOCH,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset({PARTITION}) if has_partitions else frozenset(),
        start_timestamp_ms=-1 if state is TransactionState.EMPTY else STARTED_MS,
        last_update_timestamp_ms=UPDATED_MS,
    )
    return known._replace(**changes)
