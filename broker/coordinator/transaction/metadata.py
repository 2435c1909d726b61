"""What the coordinator knows of one transactional id: a value, and its form in `__transaction_state`.

Owns: the fields, the invariants between them, encoding. Does not own: decisions (`decisions`), the current value
(`shard`). Designed for both transaction protocols; fields of transaction.version 2 keep their defaults under 1.
KIPs: 98, 360 (last producer epoch), 890 (previous and next producer id, client transaction version).
"""

from dataclasses import dataclass, replace

from broker.coordinator.runtime import CoordinatorRecord
from broker.coordinator.transaction.states import TransactionState, check_transition
from protocol import state_record_codec
from protocol.errors import ErrorCode, KafkaError
from protocol.generated import transaction_log_key, transaction_log_value
from protocol.generated.transaction_log_key import TransactionLogKey
from protocol.generated.transaction_log_value import PartitionsSchema, TransactionLogValue

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_TIMESTAMP = -1
MAX_PRODUCER_EPOCH = 32_766
"""The last epoch that is handed out: 32,767 is kept for fencing (Kafka's exhaustion rule)."""

TopicPartition = tuple[str, int]


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
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_transaction_version: int = 0

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= MAX_PRODUCER_EPOCH

    def moved_to(self, state: TransactionState, now_ms: int) -> "TransactionMetadata":
        """The same transaction in the next state. Raises IllegalTransition."""
        check_transition(self.state, state)
        return replace(self, state=state, last_update_timestamp_ms=max(now_ms, self.last_update_timestamp_ms))

    def completed(self, now_ms: int) -> "TransactionMetadata":
        """All markers are durable: nothing is open any more."""
        committed = self.state is TransactionState.PREPARE_COMMIT
        target = TransactionState.COMPLETE_COMMIT if committed else TransactionState.COMPLETE_ABORT
        return replace(self.moved_to(target, now_ms), partitions=frozenset())


def check_replayed(previous: TransactionMetadata | None, target: TransactionMetadata) -> None:
    """What must hold when a record is applied, live or while loading. Raises IllegalTransition or KafkaError."""
    if previous is not None and previous.producer_id == target.producer_id:
        check_transition(previous.state, target.state)
        if target.producer_epoch < previous.producer_epoch:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{target.transactional_id}: producer epoch {previous.producer_epoch} goes back to "
                f"{target.producer_epoch}",
            )
    if target.state is TransactionState.EMPTY and target.partitions:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{target.transactional_id} is Empty with partitions")


def to_record(metadata: TransactionMetadata) -> CoordinatorRecord:
    """Key and value as Kafka's TransactionLog writes them (value version 1, flexible)."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TransactionState.EMPTY
        else [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()],
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        client_transaction_version=metadata.client_transaction_version,
    )
    return CoordinatorRecord(_key(metadata.transactional_id), state_record_codec.encode_value(value, 1))


def to_tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record that forgets a transactional id."""
    return CoordinatorRecord(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return state_record_codec.encode_key(TransactionLogKey(transactional_id=transactional_id))


def from_record(record: CoordinatorRecord) -> tuple[str, TransactionMetadata | None]:
    """The transactional id, and what is known of it; None after a tombstone. Raises ProtocolError."""
    key: TransactionLogKey = state_record_codec.decode(transaction_log_key, record.key, 0)
    if record.value is None:
        return key.transactional_id, None
    value: TransactionLogValue = state_record_codec.decode(transaction_log_value, record.value)
    metadata = TransactionMetadata(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=TransactionState(value.transaction_status),
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
    )
    return key.transactional_id, metadata
