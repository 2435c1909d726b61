"""DescribeTransactions (65): request and response.

KIPs: 664 (hanging transactions).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

DESCRIBE_TRANSACTIONS_REQUEST = Schema(
    "DescribeTransactionsRequest",
    api_key=65,
    versions="0",
    flexible="0+",
    fields=(Field("transactional_ids", ArrayOf(String)),),
)

DESCRIBE_TRANSACTIONS_RESPONSE = Schema(
    "DescribeTransactionsResponse",
    api_key=65,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "transaction_states",
            ArrayOf(
                Structure(
                    "TransactionState",
                    Field("error_code", Int16),
                    Field("transactional_id", String),
                    Field("transaction_state", String),
                    Field("transaction_timeout_ms", Int32),
                    Field("transaction_start_time_ms", Int64),
                    Field("producer_id", Int64),
                    Field("producer_epoch", Int16),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "TopicData",
                                Field("topic", String),
                                Field("partitions", ArrayOf(Int32)),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
