"""AddPartitionsToTxn (24): request and response.

KIPs: 98 (transactions), 890 (verification, batches from brokers).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String

_TOPIC_RESULT = Structure(
    "AddPartitionsToTxnTopicResult",
    Field("name", String),
    Field(
        "results_by_partition",
        ArrayOf(
            Structure(
                "AddPartitionsToTxnPartitionResult",
                Field("partition_index", Int32),
                Field("partition_error_code", Int16),
            )
        ),
    ),
)
_TOPIC = Structure(
    "AddPartitionsToTxnTopic",
    Field("name", String),
    Field("partitions", ArrayOf(Int32)),
)

# Version 1 is the same as version 0.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds VerifyOnly field to check if partitions are already in transaction and adds support to batch multiple
# transactions.
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
# Versions 3 and below will be exclusively used by clients and versions 4 and above will be used by brokers.
ADD_PARTITIONS_TO_TXN_REQUEST = Schema(
    "AddPartitionsToTxnRequest",
    api_key=24,
    versions="0-5",
    flexible="3+",
    fields=(
        Field(
            "transactions",
            ArrayOf(
                Structure(
                    "AddPartitionsToTxnTransaction",
                    Field("transactional_id", String, "4+"),
                    Field("producer_id", Int64, "4+"),
                    Field("producer_epoch", Int16, "4+"),
                    Field("verify_only", Boolean, "4+", default=False),
                    Field(
                        "topics",
                        ArrayOf(_TOPIC),
                        "4+",
                    ),
                )
            ),
            "4+",
        ),
        Field("v3_and_below_transactional_id", String, "0-3"),
        Field("v3_and_below_producer_id", Int64, "0-3"),
        Field("v3_and_below_producer_epoch", Int16, "0-3"),
        Field(
            "v3_and_below_topics",
            ArrayOf(_TOPIC),
            "0-3",
        ),
    ),
)

# Starting in version 1, on quota violation brokers send out responses before throttling.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds support to batch multiple transactions and a top level error code.
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
ADD_PARTITIONS_TO_TXN_RESPONSE = Schema(
    "AddPartitionsToTxnResponse",
    api_key=24,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16, "4+"),
        Field(
            "results_by_transaction",
            ArrayOf(
                Structure(
                    "AddPartitionsToTxnResult",
                    Field("transactional_id", String, "4+"),
                    Field(
                        "topic_results",
                        ArrayOf(_TOPIC_RESULT),
                        "4+",
                    ),
                )
            ),
            "4+",
        ),
        Field(
            "results_by_topic_v3_and_below",
            ArrayOf(_TOPIC_RESULT),
            "0-3",
        ),
    ),
)
