"""What the coordinator knows of one transactional id: a value, and the legal steps from one value to the next.

Owns: the fields and the invariants between them. Does not own: decisions (`decisions`, `endings`), the form in
`__transaction_state` (`records`), the current value (`shard`). Designed for both transaction protocols; fields of
transaction.version 2 keep their defaults under 1.
KIPs: 98, 360 (last producer epoch), 890 (previous and next producer id, client transaction version).
"""

from dataclasses import dataclass, replace

from broker.coordinator.transaction.states import (
    COMPLETED,
    PREPARED,
    IllegalTransition,
    TransactionState,
    check_transition,
)

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
EXHAUSTED_PRODUCER_EPOCH = 32_766
"""The last epoch that a client is given; the next is that of a new producer id."""
FENCING_PRODUCER_EPOCH = 32_767
"""Given to nobody: markers and fences carry it when the epochs are used up."""

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ProducerIdAndEpoch:
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
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
    """The epoch before the last bump, by which a producer resumes whose answer was lost (KIP-360). Kafka's log has no
    place for it, so that its restart forgets it."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= EXHAUSTED_PRODUCER_EPOCH

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """What the client is told. While an exhausted epoch is rotated that is already the next producer id."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    def moved_to(self, state: TransactionState, now_ms: int) -> "TransactionMetadata":
        """The same transaction in the next state. Raises IllegalTransition.

        The producer id before a rotation counts until then: it is there for the retry of a lost answer, and must not
        come back into a transaction that the next id has begun.
        """
        check_transition(self.state, state)
        return replace(
            self,
            state=state,
            previous_producer_id=NO_PRODUCER_ID,
            last_update_timestamp_ms=max(now_ms, self.last_update_timestamp_ms),
        )

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """All markers are durable: nothing is open any more, and a rotated producer id takes over."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        target = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        completed = replace(self.moved_to(target, now_ms), partitions=frozenset())
        if self.next_producer_id == NO_PRODUCER_ID:
            return completed
        return replace(
            completed,
            producer_id=self.next_producer_id,
            producer_epoch=0,
            previous_producer_id=self.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


def check_step(previous: TransactionMetadata | None, target: TransactionMetadata) -> None:
    """Kafka's completeTransitionTo: what must hold between a value and the next, before it is logged.

    Raises IllegalTransition. Asked while deciding and not in replay: a compacted log has lost steps between.
    """
    if previous is None:
        is_legal = target.state is TransactionState.EMPTY and target.producer_epoch == 0
    else:
        check_transition(previous.state, target.state)
        is_legal = _has_legal_producer(previous, target) and _has_legal_partitions(previous, target)
        is_legal &= target.last_update_timestamp_ms >= previous.last_update_timestamp_ms
    if not is_legal:
        raise IllegalTransition(f"{previous} does not go on to {target}")


def _has_legal_producer(previous: TransactionMetadata, target: TransactionMetadata) -> bool:
    bump = target.producer_epoch - previous.producer_epoch
    is_same = target.producer_id == previous.producer_id
    is_rotated = target.producer_epoch == 0 and target.previous_producer_id == previous.producer_id
    if target.state is TransactionState.ONGOING:
        return is_same and bump == 0 and target.timeout_ms == previous.timeout_ms
    if target.state in COMPLETED:
        return (is_same and bump == 0) or (is_rotated and target.producer_id == previous.next_producer_id)
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
