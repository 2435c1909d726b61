"""The broker's state in this turn, durable or not: for stepping through a transaction.

Owns: what is shown. Changes nothing, waits for nothing; the durable state is available over Kafka's protocol.
"""

from typing import Any

from oncelog.broker.coordinator.transaction.metadata import NO_PRODUCER_ID
from oncelog.broker.coordinator.transaction.shard_life import TransactionStatus
from oncelog.broker.faults.faults import Faults
from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.log.producer_state import NO_OFFSET
from oncelog.protocol.transaction_states import explained

Shown = dict[str, Any]


def show_transactions(faults: Faults) -> list[Shown]:
    """Return every transactional id, with the partitions that still lack their marker."""
    if faults.broker is None:
        return []
    return [_transaction(status) for status in faults.broker.transactions.current()]


def _transaction(status: TransactionStatus) -> Shown:
    metadata = status.metadata
    partitions = [_name(*partition) for partition in sorted(metadata.partitions)]
    without_marker = [_name(*partition) for partition in status.without_marker]
    shown: Shown = {
        "transactional_id": metadata.transactional_id,
        "state": metadata.state.kafka_name,
        "meaning": explained(metadata.state.kafka_name, without_marker or partitions),
        "is_pending": status.is_pending,
        "producer_id": metadata.producer_id,
        "producer_epoch": metadata.producer_epoch,
        "timeout_ms": metadata.timeout_ms,
        "start_timestamp_ms": metadata.start_timestamp_ms,
        "last_update_timestamp_ms": metadata.last_update_timestamp_ms,
        "transaction_version": metadata.client_transaction_version,
        "partitions": partitions,
        "without_marker": without_marker,
    }
    if metadata.next_producer_id != NO_PRODUCER_ID:
        shown["next_producer_id"] = metadata.next_producer_id
    return shown


def show_partitions(faults: Faults, topic: str | None = None) -> list[Shown]:
    """Return every partition that has a log, with its offsets and open transactions."""
    if faults.broker is None:
        return []
    logs = sorted(faults.broker.logs.logs, key=lambda log: (log.topic, log.partition))
    return [_partition(log) for log in logs if topic in (None, log.topic)]


def _partition(log: PartitionLog) -> Shown:
    return {
        "topic": log.topic,
        "partition": log.partition,
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "open_transactions": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.producer_epoch,
                "first_offset": producer.current_transaction_first_offset,
            }
            for producer in log.producer_state.producers()
            if producer.current_transaction_first_offset != NO_OFFSET
        ],
    }


def _name(topic: str, partition: int) -> str:
    return f"{topic}-{partition}"
