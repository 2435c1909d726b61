"""The metadata of one transactional id: a value, and the legal steps from one value to the next.

Owns: the fields, the invariants between them, the shape of a `Decision`. Does not own: the decisions themselves
(`begin_decisions`, `end_decisions`), the format in `__transaction_state` (`records`), the current value (`shard`).
Serves both transaction protocols; fields of transaction.version 2 keep their defaults under 1.
KIPs: 98, 360 (last producer epoch), 890 (previous and next producer id, client transaction version), 939 (next
producer epoch: of the instance that took over an open transaction).
"""

from typing import NamedTuple

from oncelog.broker.coordinator.transaction.states import (
    COMPLETED,
    PREPARED,
    IllegalTransition,
    TransactionState,
    check_transition,
)
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EXHAUSTED_PRODUCER_EPOCH = 32_766
"""The last epoch that a client is assigned; what follows is a new producer id."""
FENCING_PRODUCER_EPOCH = 32_767
"""Never assigned: markers and fences carry it when the epochs are exhausted."""
NO_TIMEOUT_MS = 2**31 - 1
"""The timeout of a two-phase commit transaction, which the coordinator never ends by itself (KIP-939)."""

TopicPartition = tuple[str, int]


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_PRODUCER = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


class TransactionMetadata(NamedTuple):
    """Kafka's TransactionMetadata; timestamps are wall-clock milliseconds, -1 for none."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition]
    start_timestamp_ms: int
    last_update_timestamp_ms: int
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the last bump, with which a producer resumes if the response was lost (KIP-360). Kafka does not
    log it, so a restart of Kafka forgets it."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0
    next_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch that, with the next producer id, identifies the instance that took over an open transaction unchanged;
    the transaction keeps its own producer id and epoch, which are those of its batches (KIP-939)."""

    is_settled: bool = False
    """True if all that was answered of the open transaction is durable, and all that will be: a power cut leaves it
    whole."""

    @property
    def is_taken_over(self) -> bool:
        """Whether an instance keeps what its predecessor prepared; so until COMPLETE."""
        return self.next_producer_epoch != NO_PRODUCER_EPOCH

    @property
    def own(self) -> ProducerIdAndEpoch:
        """The producer id and epoch of batches and markers."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def client(self) -> ProducerIdAndEpoch:
        """The producer id and epoch that requests must carry."""
        return self.producer if self.is_taken_over else self.own

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer id and epoch that the client is sent. While an exhausted epoch is rotated, this is already the
        next producer id."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, max(0, self.next_producer_epoch))
        return self.own

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.client.producer_epoch >= EXHAUSTED_PRODUCER_EPOCH

    def with_state(self, state: TransactionState, wall_ms: WallMs) -> "TransactionMetadata":
        """Return the same transaction in the next state. Raises IllegalTransition.

        Drops the producer id before a rotation: it exists for the retry of a lost response, and must not return in a
        transaction that the next id has begun.
        """
        check_transition(self.state, state)
        return self._replace(
            state=state,
            is_settled=self.is_settled and state is self.state,
            previous_producer_id=NO_PRODUCER_ID,
            last_update_timestamp_ms=max(wall_ms, self.last_update_timestamp_ms),
        )

    def to_completed(self, wall_ms: WallMs) -> "TransactionMetadata":
        """Return the metadata once all markers are appended: nothing is open, and the next producer id, if any, becomes
        the current one."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        target = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        completed = self.with_state(target, wall_ms)._replace(partitions=frozenset())
        if self.next_producer_id == NO_PRODUCER_ID:
            return completed
        return completed._replace(
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            previous_producer_id=self.previous_producer_id if self.is_taken_over else self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_PRODUCER_EPOCH,
        )


def check_step(previous: TransactionMetadata | None, target: TransactionMetadata) -> None:
    """Kafka's completeTransitionTo: what must hold between a value and the next, before it is logged.

    Raises IllegalTransition. Called when deciding, not in replay: compaction removes steps from the log.
    """
    if previous is None:
        is_legal = target.state is TransactionState.EMPTY and target.producer_epoch == 0
    else:
        check_transition(previous.state, target.state)
        is_legal = _has_legal_producer(previous, target) and _has_legal_partitions(previous, target)
        is_legal &= target.last_update_timestamp_ms >= previous.last_update_timestamp_ms
    if not is_legal:
        raise IllegalTransition(f"{target} cannot follow {previous}")


def _has_legal_producer(previous: TransactionMetadata, target: TransactionMetadata) -> bool:
    bump = target.producer_epoch - previous.producer_epoch
    is_same = target.producer_id == previous.producer_id
    is_rotated = target.producer_epoch == 0 and target.previous_producer_id == previous.producer_id
    if target.state is TransactionState.ONGOING:
        return is_same and bump == 0 and target.timeout_ms == previous.timeout_ms
    if target.state in COMPLETED:
        return target.own == previous.producer and not target.is_taken_over
    if target.state in PREPARED:
        return is_same and bump in (0, 1)
    return (is_same and bump in (0, 1)) or is_rotated


def _has_legal_partitions(previous: TransactionMetadata, target: TransactionMetadata) -> bool:
    if target.state is TransactionState.ONGOING:
        return target.partitions >= previous.partitions and target.start_timestamp_ms != NO_TIMESTAMP
    if target.state in PREPARED:
        return target.partitions == previous.partitions and target.start_timestamp_ms != NO_TIMESTAMP
    if target.state in COMPLETED:
        return not target.partitions and target.start_timestamp_ms != NO_TIMESTAMP
    return not target.partitions and target.start_timestamp_ms == NO_TIMESTAMP


class Decision(NamedTuple):
    """`target`, if any, is logged; then `error` is the response (NONE with the producer id and epoch as of then)."""

    error: ErrorCode = ErrorCode.NONE
    target: TransactionMetadata | None = None
    needs_producer_id: bool = False
    """True if the decision needs a fresh producer id: fetch one and decide again."""


NOTHING_TO_DO = Decision()
NEEDS_PRODUCER_ID = Decision(needs_producer_id=True)


def refuse(error: ErrorCode) -> Decision:
    return Decision(error)


def check_producer(metadata: TransactionMetadata, producer_id: int, producer_epoch: int) -> ErrorCode:
    """Return NONE, or why this is not the current producer: a higher epoch is as wrong as a lower one."""
    client = metadata.client
    if producer_id != client.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer_epoch != client.producer_epoch:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE
