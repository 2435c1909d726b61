"""TransactionLogValue: a record of transaction-coordinator.

KIPs: 98 (transactions), 890 (earlier and next producer id, version), 915 (tagged fields), 939 (next producer epoch).
`last_producer_epoch` and `is_settled` are not Kafka's, which passes over tags that it does not know; their tags are far
from Kafka's own.
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, Int64, String

# Version 1 is the first flexible version.
# KIP-915: bumping the version will no longer make this record backward compatible.
# We suggest to add/remove only tagged fields to maintain backward compatibility.
TRANSACTION_LOG_VALUE = Schema(
    "TransactionLogValue",
    api_key=0,
    versions="0-1",
    flexible="1+",
    fields=(
        Field("producer_id", Int64),
        Field("previous_producer_id", Int64, "1+", default=-1, tag=0, tagged="1+"),
        Field("next_producer_id", Int64, "1+", default=-1, tag=1, tagged="1+"),
        Field("producer_epoch", Int16),
        Field("next_producer_epoch", Int16, "1+", default=-1, tag=3, tagged="1+"),
        Field("transaction_timeout_ms", Int32),
        Field("transaction_status", Int8),
        Field(
            "transaction_partitions",
            ArrayOf(
                Structure(
                    "PartitionsSchema",
                    Field("topic", String),
                    Field("partition_ids", ArrayOf(Int32)),
                )
            ),
            nullable="0+",
        ),
        Field("transaction_last_update_timestamp_ms", Int64),
        Field("transaction_start_timestamp_ms", Int64),
        Field("client_transaction_version", Int16, "1+", default=0, tag=2, tagged="1+"),
        Field("last_producer_epoch", Int16, "1+", default=-1, tag=1000, tagged="1+"),
        Field("is_settled", Int8, "1+", default=0, tag=1001, tagged="1+"),
    ),
)
