"""The coordinator's decisions under transaction.version 1, as pure functions of the metadata and the request.

Owns: which request in which state gives which error, or which next metadata. The order of the checks is Kafka's:
clients tell "fenced" from "try again" by it. Does not own: pending transitions beyond the flag that is given, logging,
markers (`coordinator`). KIPs: 98, 360 (a producer that resumes with its epoch), 588 (PRODUCER_FENCED).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from broker.coordinator.transaction.metadata import (
    MAX_PRODUCER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TopicPartition,
    TransactionMetadata,
)
from broker.coordinator.transaction.states import PREPARED, TransactionState
from protocol.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class Decision:
    """`target` is logged if there is one; then `error` is answered (NONE together with the current pair)."""

    error: ErrorCode = ErrorCode.NONE
    target: TransactionMetadata | None = None
    needs_producer_id: bool = False
    """Nothing can be decided before a fresh producer id is at hand: fetch one and ask again."""


NOTHING_TO_DO = Decision()


def _refuse(error: ErrorCode) -> Decision:
    return Decision(error)


def prepare_init_producer_id(
    metadata: TransactionMetadata | None,
    transactional_id: str,
    timeout_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    is_pending: bool,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Decision:
    """InitProducerId: a new pair for a new instance, the bumped pair for one that resumes, the fence for its rivals."""
    if metadata is None:
        if fresh_producer_id is None:
            return Decision(needs_producer_id=True)
        return Decision(target=_new(transactional_id, fresh_producer_id, timeout_ms, now_ms))
    if is_pending:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if producer_id != NO_PRODUCER_ID and not _may_resume(metadata, producer_id, producer_epoch):
        return _refuse(ErrorCode.PRODUCER_FENCED)
    if metadata.state in PREPARED:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is TransactionState.ONGOING:
        # The open transaction is ended first; the client asks again and gets the bump after that.
        return Decision(ErrorCode.CONCURRENT_TRANSACTIONS, prepare_fence(metadata, now_ms))
    return _bump(metadata, timeout_ms, producer_id, producer_epoch, fresh_producer_id, now_ms)


def _may_resume(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> bool:
    """KIP-360: the current producer, or the one whose exhausted epochs made us give out a new id."""
    return producer_id == metadata.producer_id or (
        producer_id == metadata.previous_producer_id and producer_epoch >= MAX_PRODUCER_EPOCH
    )


def _new(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> TransactionMetadata:
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_update_timestamp_ms=now_ms,
    )


def _bump(
    metadata: TransactionMetadata,
    timeout_ms: int,
    producer_id: int,
    producer_epoch: int,
    fresh_producer_id: int | None,
    now_ms: int,
) -> Decision:
    is_new_instance = producer_epoch == NO_PRODUCER_EPOCH
    if not is_new_instance and producer_id == metadata.producer_id:
        if producer_epoch == metadata.last_producer_epoch:
            return NOTHING_TO_DO  # the answer to the first try was lost: the same answer again
        if producer_epoch != metadata.producer_epoch:
            return _refuse(ErrorCode.PRODUCER_FENCED)
    emptied = replace(
        metadata.moved_to(TransactionState.EMPTY, now_ms),
        timeout_ms=timeout_ms,
        partitions=frozenset(),
        start_timestamp_ms=NO_TIMESTAMP,
        last_producer_epoch=NO_PRODUCER_EPOCH if is_new_instance else metadata.producer_epoch,
    )
    if not metadata.is_epoch_exhausted:
        return Decision(target=replace(emptied, producer_epoch=metadata.producer_epoch + 1))
    if fresh_producer_id is None:
        return Decision(needs_producer_id=True)
    return Decision(
        target=replace(
            emptied,
            producer_id=fresh_producer_id,
            producer_epoch=0,
            previous_producer_id=metadata.producer_id,
        )
    )


def prepare_fence(metadata: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Abort an open transaction over its producer's head: the epoch moves first, so that nothing of it follows."""
    return replace(
        metadata.moved_to(TransactionState.PREPARE_ABORT, now_ms),
        producer_epoch=metadata.producer_epoch + 1,
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )


def prepare_add_partitions(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    *,
    is_pending: bool,
    now_ms: int,
) -> Decision:
    """AddPartitionsToTxn and AddOffsetsToTxn. A pending transition is seen before a wrong producer id (KAFKA-18660)."""
    if metadata is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if is_pending:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return _refuse(error)
    if metadata.state in PREPARED:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    added = metadata.partitions.union(partitions)
    is_ongoing = metadata.state is TransactionState.ONGOING
    if is_ongoing and added == metadata.partitions:
        return NOTHING_TO_DO
    ongoing = metadata.moved_to(TransactionState.ONGOING, now_ms)
    start = metadata.start_timestamp_ms if is_ongoing else now_ms
    return Decision(target=replace(ongoing, partitions=added, start_timestamp_ms=start))


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> ErrorCode:
    """NONE, or why this is not the current producer: a higher epoch is as wrong as a lower one."""
    if producer_id != metadata.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != metadata.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


_S = TransactionState
_ALREADY_ENDED = {
    # state: (answer to commit, answer to abort), Kafka's TransactionCoordinator.endTransaction for versions up to 4
    _S.PREPARE_COMMIT: (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE),
    _S.PREPARE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.CONCURRENT_TRANSACTIONS),
    _S.COMPLETE_COMMIT: (ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE),
    _S.COMPLETE_ABORT: (ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE),
    _S.EMPTY: (ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_TXN_STATE),
}


def prepare_end_transaction(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    is_pending: bool,
    now_ms: int,
) -> Decision:
    """EndTxn up to version 4. A retry of an end that took effect succeeds; the opposite end is INVALID_TXN_STATE."""
    if metadata is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return _refuse(error)
    if is_pending:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    if metadata.state is not TransactionState.ONGOING:
        return _refuse(_ALREADY_ENDED[metadata.state][0 if committed else 1])
    target = TransactionState.PREPARE_COMMIT if committed else TransactionState.PREPARE_ABORT
    return Decision(target=metadata.moved_to(target, now_ms))


def check_partitions(
    metadata: TransactionMetadata | None,
    producer_id: int,
    producer_epoch: int,
    partitions: Iterable[TopicPartition],
    not_durable: Iterable[TopicPartition],
) -> ErrorCode:
    """May a transactional batch open the transaction on these partitions (KIP-890, part 1)?"""
    if metadata is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    error = check_producer(metadata, producer_id, producer_epoch)
    if error:
        return error
    if metadata.state in PREPARED:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    wanted = set(partitions)
    if metadata.state is not TransactionState.ONGOING or not wanted <= metadata.partitions:
        return ErrorCode.TRANSACTION_ABORTABLE
    # Data must never survive a crash that its partition's place in the transaction does not.
    return ErrorCode.CONCURRENT_TRANSACTIONS if wanted.intersection(not_durable) else ErrorCode.NONE
