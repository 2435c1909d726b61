"""construct declarations of a log's file formats: batches, indexes, producer snapshots.

The readable definition, and the oracle of the property tests; the optimised forms that serve are in `protocol.records`
and in the broker's log. Serving code does not import this module. Source: Kafka's DefaultRecordBatch, OffsetIndex,
TimeIndex, AbortedTxn and ProducerStateManager.
"""

from construct import Array, Int8sb, Int16sb, Int32sb, Int32ub, Int64sb, Struct, this

BATCH_HEADER = Struct(
    "base_offset" / Int64sb,
    "batch_length" / Int32sb,  # counts from the next field on
    "partition_leader_epoch" / Int32sb,
    "magic" / Int8sb,  # 2
    "crc" / Int32ub,  # CRC-32C of everything after it
    "attributes" / Int16sb,  # bits 0-2 codec, 3 LogAppendTime, 4 transactional (KIP-98), 5 control, 6 delete horizon
    "last_offset_delta" / Int32sb,
    "base_timestamp" / Int64sb,
    "max_timestamp" / Int64sb,
    "producer_id" / Int64sb,  # KIP-98
    "producer_epoch" / Int16sb,
    "base_sequence" / Int32sb,
    "record_count" / Int32sb,
)

CONTROL_RECORD_KEY = Struct("version" / Int16sb, "type" / Int16sb)
END_TXN_MARKER = Struct("version" / Int16sb, "coordinator_epoch" / Int32sb)

OFFSET_INDEX_ENTRY = Struct("relative_offset" / Int32sb, "position" / Int32sb)
TIME_INDEX_ENTRY = Struct("timestamp" / Int64sb, "relative_offset" / Int32sb)
TRANSACTION_INDEX_ENTRY = Struct(
    "version" / Int16sb,  # 0
    "producer_id" / Int64sb,
    "first_offset" / Int64sb,
    "last_offset" / Int64sb,  # the ABORT marker's
    "last_stable_offset" / Int64sb,  # when the marker was written
)

PRODUCER_SNAPSHOT_ENTRY = Struct(
    "producer_id" / Int64sb,
    "producer_epoch" / Int16sb,
    "last_sequence" / Int32sb,
    "last_offset" / Int64sb,
    "offset_delta" / Int32sb,
    "timestamp" / Int64sb,
    "coordinator_epoch" / Int32sb,
    "current_transaction_first_offset" / Int64sb,  # -1: none
)
PRODUCER_SNAPSHOT = Struct(
    "version" / Int16sb,  # 1
    "crc" / Int32ub,  # CRC-32C of everything after it
    "count" / Int32sb,
    "entries" / Array(this.count, PRODUCER_SNAPSHOT_ENTRY),
)
