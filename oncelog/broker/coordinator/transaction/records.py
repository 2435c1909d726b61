"""The format of a transactional id's metadata in `__transaction_state`: Kafka's TransactionLog.

Owns: encoding and decoding of keys, values and tombstones. Invariants: `from_record(to_record(m)) == m`; what a record
carries as `decoded` is what `from_record` reads from its bytes. The epoch before the last bump, and whether a
transaction is settled, are tagged fields of our own, which Kafka's decoder skips (KIP-915). Without them a restart
forgets that epoch, as Kafka's does, and takes no transaction for settled.
"""

from oncelog.broker.apis.compatibility import OURS, Compatibility
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.coordinator.transaction.metadata import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from oncelog.broker.coordinator.transaction.states import TransactionState
from oncelog.protocol import state_record_codec
from oncelog.protocol.errors import ErrorCode, KafkaError, ProtocolError
from oncelog.protocol.generated import transaction_log_key, transaction_log_value
from oncelog.protocol.generated.transaction_log_key import TransactionLogKey
from oncelog.protocol.generated.transaction_log_value import PartitionsSchema, TransactionLogValue

_NEVER_LOGGED = (TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE)


def to_record(
    metadata: TransactionMetadata, transaction_version: int, *, compatibility: Compatibility = OURS
) -> CoordinatorRecord:
    """Return key and value. Value version 1 has the fields of KIP-890 as tags. A cluster at level 0 may still be
    downgraded to a release that reads only version 0, except for a transaction that has already been promised a next
    producer id."""
    has_tags = transaction_version > 0 or metadata.next_producer_id != NO_PRODUCER_ID
    if not has_tags:
        metadata = metadata._replace(
            previous_producer_id=NO_PRODUCER_ID,
            last_producer_epoch=NO_PRODUCER_EPOCH,
            client_transaction_version=0,
            next_producer_epoch=NO_PRODUCER_EPOCH,
            is_settled=False,
        )
    elif not compatibility.keeps_last_epoch:
        metadata = metadata._replace(last_producer_epoch=NO_PRODUCER_EPOCH, is_settled=False)
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        next_producer_epoch=metadata.next_producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=_by_topic(metadata),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp_ms,
        transaction_start_timestamp_ms=metadata.start_timestamp_ms,
        client_transaction_version=metadata.client_transaction_version,
        last_producer_epoch=metadata.last_producer_epoch,
        is_settled=metadata.is_settled,
    )
    encoded = state_record_codec.encode_value(value, 1 if has_tags else 0)
    return CoordinatorRecord(_key(metadata.transactional_id), encoded, metadata)


def _by_topic(metadata: TransactionMetadata) -> list[PartitionsSchema] | None:
    if metadata.state is TransactionState.EMPTY:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(metadata.partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=indexes) for topic, indexes in topics.items()]


def to_tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the record that deletes a transactional id."""
    return CoordinatorRecord(_key(transactional_id), None)


def _key(transactional_id: str) -> bytes:
    return state_record_codec.encode_key(TransactionLogKey(transactional_id=transactional_id))


def from_record(record: CoordinatorRecord) -> tuple[str, TransactionMetadata | None]:
    """Return the transactional id and its metadata; None after a tombstone. Raises KafkaError(CORRUPT_MESSAGE)."""
    try:
        if state_record_codec.prefix(record.key) != transaction_log_key.API_KEY:
            raise ProtocolError("its key is not a transactional id")
        key: TransactionLogKey = state_record_codec.decode(transaction_log_key, record.key, 0)
        if record.value is None:
            return key.transactional_id, None
        return key.transactional_id, _decode_value(key.transactional_id, record.value)
    except (ProtocolError, ValueError) as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record of __transaction_state: {error}") from error


def _decode_value(transactional_id: str, data: bytes) -> TransactionMetadata:
    value: TransactionLogValue = state_record_codec.decode(transaction_log_value, data)
    state = TransactionState(value.transaction_status)
    if state in _NEVER_LOGGED:
        raise ProtocolError(f"{state.kafka_name} is never logged")
    return TransactionMetadata(
        transactional_id=transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            (topic.topic, index) for topic in value.transaction_partitions or () for index in topic.partition_ids
        ),
        start_timestamp_ms=value.transaction_start_timestamp_ms,
        last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        client_transaction_version=value.client_transaction_version,
        last_producer_epoch=value.last_producer_epoch,
        next_producer_epoch=value.next_producer_epoch,
        is_settled=bool(value.is_settled),
    )
