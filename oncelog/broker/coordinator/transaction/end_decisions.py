"""The decisions that end a transaction: EndTxn under both protocols, and the abort that the coordinator starts itself.

Owns: which end in which state gives which error or which prepared metadata. The order of the checks is Kafka's: clients
distinguish "fenced" from "retry" by it. Does not own: pending transitions (it is given a flag), logging, markers.
KIPs: 98, 588, 890 (a new epoch with every end; a new producer id once epochs are exhausted), 939. The markers of a
transaction that was taken over carry the epoch after its own, under either protocol: they fence its first producer.
"""

from oncelog.broker.apis.compatibility import KAFKA, Compatibility
from oncelog.broker.apis.table import TRANSACTION_V2
from oncelog.broker.coordinator.transaction.metadata import (
    EXHAUSTED_PRODUCER_EPOCH,
    FENCING_PRODUCER_EPOCH,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    NO_TIMEOUT_MS,
    Decision,
    TransactionMetadata,
    check_producer,
    refuse,
)
from oncelog.broker.coordinator.transaction.states import COMPLETED, PREPARED, TransactionState
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode

_S = TransactionState
# state: (response to commit, response to abort), Kafka's endTransactionWithTV1
_ALREADY_ENDED = {
    _S.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
    _S.PREPARE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
    _S.COMPLETE_COMMIT: (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    _S.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
    _S.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
}


def prepare_end_transaction_v1(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    is_pending: bool,
    wall_ms: WallMs,
) -> Decision:
    """Decide on EndTxn up to version 4. Retrying an end that took effect succeeds; the opposite end is
    INVALID_TXN_STATE."""
    if metadata is None:
        return refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return refuse(error)
    if is_pending:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is not _S.ONGOING:
        return refuse(_ALREADY_ENDED[metadata.state][0 if committed else 1])
    target = metadata.with_state(_prepare_state(committed), wall_ms)._replace(client_transaction_version=0)
    if metadata.is_taken_over:
        target = target._replace(producer_epoch=_after(metadata.producer_epoch))
    return Decision(target=target)


def prepare_end_transaction_v2(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    is_pending: bool,
    fresh_producer_id: int | None,
    wall_ms: WallMs,
    compatibility: Compatibility = KAFKA,
) -> Decision:
    """EndTxn from version 5 on: the end bumps the epoch, so that the epoch distinguishes a retry from the next end.

    An abort with nothing open is legal: the client does not know whether the broker saw its transaction. An end by the
    classic protocol bumps nothing, so the holder of the previous epoch is another, replaced instance. Kafka still
    returns the producer id and epoch of its replacement (`Compatibility.retries_classic_ends`).

    A retry repeats its end, so a commit that finds the transaction aborted at its retried epoch was overtaken by an
    abort of the coordinator's own, such as a timeout (`Compatibility.fences_late_commits`).
    """
    if metadata is None:
        return refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    # Checked first: while an exhausted epoch is rotated, the client may know the new id before it is logged.
    if is_pending:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    is_retry_over_rotation = (
        producer_id == metadata.previous_producer_id
        and producer_epoch == EXHAUSTED_PRODUCER_EPOCH
        and metadata.producer_epoch == 0
    )
    client = metadata.client
    if producer_id != client.producer_id and not is_retry_over_rotation:
        return refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    is_epoch_before = producer_epoch == client.producer_epoch - 1
    is_retry = is_retry_over_rotation or (
        is_epoch_before and (compatibility.retries_classic_ends or metadata.client_transaction_version > 0)
    )
    is_current = producer_id == client.producer_id and producer_epoch == client.producer_epoch
    if not _is_valid_epoch(metadata.state, is_retry=is_retry, is_current=is_current):
        return refuse(ErrorCode.PRODUCER_FENCED)
    if is_retry:
        if committed and metadata.state is _S.COMPLETE_ABORT and compatibility.fences_late_commits:
            return refuse(ErrorCode.PRODUCER_FENCED)
        return refuse(_ALREADY_ENDED[metadata.state][0 if committed else 1])
    if metadata.state is not _S.ONGOING and committed:
        return refuse(ErrorCode.INVALID_TXN_STATE)
    return _prepare_with_next_epoch(metadata, _prepare_state(committed), fresh_producer_id, wall_ms)


def _is_valid_epoch(state: TransactionState, *, is_retry: bool, is_current: bool) -> bool:
    if state in PREPARED:
        return is_retry
    if state in COMPLETED:
        return is_retry or is_current
    return is_current


def prepare_abort_by_coordinator(
    metadata: TransactionMetadata, *, transaction_version: int, fresh_producer_id: int | None, wall_ms: WallMs
) -> Decision:
    """Abort an open transaction without its producer (a timeout, a new instance).

    The record that aborts also bumps the epoch, so that nothing of the old producer can follow. Under version 2 the old
    producer's own abort then counts as a retry and it may continue (KIP-588, completed by KIP-890); under version 1 it
    is fenced for good.
    """
    if transaction_version >= TRANSACTION_V2:
        return _prepare_with_next_epoch(metadata, _S.PREPARE_ABORT, fresh_producer_id, wall_ms)
    target = metadata.with_state(_S.PREPARE_ABORT, wall_ms)._replace(
        producer_epoch=_after(metadata.producer_epoch),
        next_producer_epoch=_after(metadata.next_producer_epoch) if metadata.is_taken_over else NO_PRODUCER_EPOCH,
        last_producer_epoch=NO_PRODUCER_EPOCH,
        client_transaction_version=transaction_version,
    )
    return Decision(target=target)


def aborted_after_power_cut(metadata: TransactionMetadata, wall_ms: WallMs) -> TransactionMetadata | None:
    """Return PREPARE_ABORT of a transaction that may lack what its producer was answered: the epoch is bumped, so that
    nothing of the producer can follow. None if it cannot lack anything: what is not open has no such answers, and
    before a transaction has any, the additions of its partitions are durable, so it is open here too."""
    if metadata.state is not _S.ONGOING or metadata.is_settled or metadata.timeout_ms == NO_TIMEOUT_MS:
        return None
    return prepare_abort_by_coordinator(metadata, transaction_version=0, fresh_producer_id=None, wall_ms=wall_ms).target


def _prepare_state(committed: bool) -> TransactionState:
    return _S.PREPARE_COMMIT if committed else _S.PREPARE_ABORT


def _after(producer_epoch: int) -> int:
    # The fencing epoch is never assigned, but a client may make it up: it must not overflow (KAFKA-20090).
    return min(producer_epoch + 1, FENCING_PRODUCER_EPOCH)


def _prepare_with_next_epoch(
    metadata: TransactionMetadata, state: TransactionState, fresh_producer_id: int | None, wall_ms: WallMs
) -> Decision:
    """Return PREPARE with the next epoch; after the last epoch also with the next producer id, which COMPLETE
    adopts."""
    client = metadata.client
    prepared = metadata.with_state(state, wall_ms)
    if metadata.is_epoch_exhausted:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        prepared = prepared._replace(next_producer_id=fresh_producer_id)
        if metadata.is_taken_over:  # three ids: of the transaction, of its end, and of the next transaction
            prepared = prepared._replace(next_producer_epoch=0, previous_producer_id=client.producer_id)
    elif metadata.is_taken_over:
        prepared = prepared._replace(next_producer_epoch=client.producer_epoch + 1)
    target = prepared._replace(
        producer_epoch=_after(metadata.producer_epoch),
        last_producer_epoch=client.producer_epoch,
        # A completed transaction needs a start time: an abort of nothing starts and ends at once.
        start_timestamp_ms=metadata.start_timestamp_ms if metadata.state is _S.ONGOING else wall_ms,
        client_transaction_version=TRANSACTION_V2,
    )
    return Decision(target=target)
