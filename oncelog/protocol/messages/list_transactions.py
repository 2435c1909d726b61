"""ListTransactions (66): request and response.

KIPs: 664 (hanging transactions), 994 (by duration), 1152 (by pattern).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

# Version 1: adds DurationFilter to list transactions older than specified duration
# Version 2: adds TransactionalIdPattern to list transactions with the same pattern(KIP-1152)
LIST_TRANSACTIONS_REQUEST = Schema(
    "ListTransactionsRequest",
    api_key=66,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("state_filters", ArrayOf(String)),
        Field("producer_id_filters", ArrayOf(Int64)),
        Field("duration_filter", Int64, "1+", default=-1),
        Field("transactional_id_pattern", String, "2+", nullable="2+", default=None),
    ),
)

# Version 1 is the same as version 0 (KIP-994).
# This API can return InvalidRegularExpression (KIP-1152).
LIST_TRANSACTIONS_RESPONSE = Schema(
    "ListTransactionsResponse",
    api_key=66,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("unknown_state_filters", ArrayOf(String)),
        Field(
            "transaction_states",
            ArrayOf(
                Structure(
                    "TransactionState",
                    Field("transactional_id", String),
                    Field("producer_id", Int64),
                    Field("transaction_state", String),
                )
            ),
        ),
    ),
)
