"""The decisions up to the end of a transaction, as pure functions of the metadata and the request.

Owns: which InitProducerId, AddPartitionsToTxn or verification in which state gives which error or which next metadata.
The order of the checks is Kafka's: clients distinguish "fenced" from "retry" by it. Does not own: how transactions end
(`end_decisions`), pending transitions (it is given a flag), logging.
KIPs: 98, 360 (a producer that resumes with its epoch), 588, 890, 939 (an instance that keeps what is prepared).
"""

from collections.abc import Container, Iterable

from oncelog.broker.coordinator.transaction.end_decisions import prepare_abort_by_coordinator
from oncelog.broker.coordinator.transaction.metadata import (
    EXHAUSTED_PRODUCER_EPOCH,
    NEEDS_PRODUCER_ID,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    NOTHING_TO_DO,
    Decision,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
    check_producer,
    refuse,
)
from oncelog.broker.coordinator.transaction.states import COMPLETED, PREPARED, TransactionState
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode


def prepare_init_producer_id(
    metadata: TransactionMetadata | None,
    transactional_id: str,
    timeout_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    is_pending: bool,
    fresh_producer_id: int | None,
    transaction_version: int,
    wall_ms: WallMs,
    keeps_prepared: bool = False,
    is_from_before: bool = False,
) -> Decision:
    """Decide on InitProducerId: a new producer id for a new instance, a bumped epoch for one that resumes, a fence for
    others. `is_from_before`: epochs of this producer id may have been given out that are not known any more, so none of
    them is."""
    if metadata is None:
        if fresh_producer_id is None:
            return NEEDS_PRODUCER_ID
        return Decision(target=_new(transactional_id, fresh_producer_id, timeout_ms, wall_ms))
    if is_pending:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if producer_id != NO_PRODUCER_ID and not _may_resume(metadata, producer_id, producer_epoch):
        return refuse(ErrorCode.PRODUCER_FENCED)
    if metadata.state in PREPARED:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING:
        if keeps_prepared:
            return _take_over(metadata, producer_epoch, fresh_producer_id, wall_ms)
        # The open transaction is aborted first; the client retries and gets its own bump after that.
        abort = prepare_abort_by_coordinator(
            metadata, transaction_version=transaction_version, fresh_producer_id=fresh_producer_id, wall_ms=wall_ms
        )
        return abort._replace(error=ErrorCode.CONCURRENT_TRANSACTIONS)
    needs_id = is_from_before or metadata.is_epoch_exhausted
    return _bump(metadata, timeout_ms, producer_epoch, fresh_producer_id, wall_ms, needs_id=needs_id)


def _may_resume(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """Whether it is the current producer, or the one whose exhausted epochs led to the current producer id
    (KIP-360)."""
    return producer_id == metadata.client.producer_id or (
        producer_id == metadata.previous_producer_id and producer_epoch >= EXHAUSTED_PRODUCER_EPOCH
    )


def _take_over(
    metadata: TransactionMetadata, producer_epoch: int, fresh_producer_id: int | None, wall_ms: WallMs
) -> Decision:
    """Return the producer id and epoch with which to end this transaction, which stays open under its own (KIP-939)."""
    client = metadata.client
    if producer_epoch not in (NO_PRODUCER_EPOCH, client.producer_epoch):
        is_retry = metadata.is_taken_over and producer_epoch == metadata.last_producer_epoch
        return NOTHING_TO_DO if is_retry else refuse(ErrorCode.PRODUCER_FENCED)
    if not metadata.is_epoch_exhausted:
        next_producer = ProducerIdAndEpoch(client.producer_id, client.producer_epoch + 1)
    elif fresh_producer_id is None:
        return NEEDS_PRODUCER_ID
    else:
        next_producer = ProducerIdAndEpoch(fresh_producer_id, 0)
    return Decision(
        target=metadata.with_state(TransactionState.ONGOING, wall_ms)._replace(
            next_producer_id=next_producer.producer_id,
            next_producer_epoch=next_producer.producer_epoch,
            last_producer_epoch=producer_epoch,
        )
    )


def _new(transactional_id: str, producer_id: int, timeout_ms: int, wall_ms: WallMs) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=wall_ms,
    )


def _bump(
    metadata: TransactionMetadata,
    timeout_ms: int,
    producer_epoch: int,
    fresh_producer_id: int | None,
    wall_ms: WallMs,
    *,
    needs_id: bool,
) -> Decision:
    is_new_instance = producer_epoch == NO_PRODUCER_EPOCH
    emptied = metadata.with_state(TransactionState.EMPTY, wall_ms)._replace(
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
    )
    if is_new_instance or producer_epoch == metadata.producer_epoch:
        last_producer_epoch = NO_PRODUCER_EPOCH if is_new_instance else producer_epoch
        emptied = emptied._replace(last_producer_epoch=last_producer_epoch)
        return _with_next_pair(emptied, fresh_producer_id, needs_id=needs_id)
    if producer_epoch == metadata.last_producer_epoch:
        # The first response was lost: send it again.
        is_known = metadata.state is TransactionState.EMPTY and metadata.timeout_ms == timeout_ms
        return NOTHING_TO_DO if is_known else Decision(target=emptied)
    return refuse(ErrorCode.PRODUCER_FENCED)


def _with_next_pair(emptied: TransactionMetadata, fresh_producer_id: int | None, *, needs_id: bool) -> Decision:
    if not needs_id:
        return Decision(target=emptied._replace(producer_epoch=emptied.producer_epoch + 1))
    if fresh_producer_id is None:
        return NEEDS_PRODUCER_ID
    return Decision(
        target=emptied._replace(
            producer_id=fresh_producer_id,
            producer_epoch=0,
            previous_producer_id=emptied.producer_id,
        )
    )


def prepare_add_partitions(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    *,
    is_pending: bool,
    transaction_version: int,
    wall_ms: WallMs,
) -> Decision:
    """Decide on AddPartitionsToTxn, AddOffsetsToTxn, and the implicit add of a version 2 Produce or TxnOffsetCommit.

    A pending transition is reported before a wrong producer id (KAFKA-18660).
    """
    if metadata is None:
        return refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_pending:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return refuse(error)
    if metadata.state in PREPARED:
        return refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.is_taken_over:  # a prepared transaction may only be ended
        return refuse(ErrorCode.INVALID_TXN_STATE)
    added = metadata.partitions.union(partitions)
    is_ongoing = metadata.state is TransactionState.ONGOING
    if is_ongoing and added == metadata.partitions:
        return NOTHING_TO_DO
    return Decision(
        target=metadata.with_state(TransactionState.ONGOING, wall_ms)._replace(
            partitions=added,
            start_timestamp_ms=metadata.start_timestamp_ms if is_ongoing else wall_ms,
            client_transaction_version=transaction_version,
        )
    )


def verify_partition(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partition: TopicPartition,
    not_durable: Container[TopicPartition],
    *,
    is_pending: bool = False,
) -> ErrorCode:
    """Return NONE if a transactional batch may open the transaction on this partition, else the error (KIP-890, part
    1)."""
    if metadata is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return error
    if metadata.state in PREPARED or (is_pending and metadata.state in COMPLETED):
        return ErrorCode.CONCURRENT_TRANSACTIONS
    if metadata.is_taken_over:
        return ErrorCode.INVALID_TXN_STATE
    if metadata.state is not TransactionState.ONGOING or partition not in metadata.partitions:
        return ErrorCode.TRANSACTION_ABORTABLE
    # A batch must not survive a crash that the record of its partition in the transaction does not survive.
    return ErrorCode.CONCURRENT_TRANSACTIONS if partition in not_durable else ErrorCode.NONE
