"""AddOffsetsToTxn (25): request and response.

KIPs: 98 (transactions), 890 (TRANSACTION_ABORTABLE).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, Int32, Int64, String

# Version 1 is the same as version 0.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
ADD_OFFSETS_TO_TXN_REQUEST = Schema(
    "AddOffsetsToTxnRequest",
    api_key=25,
    versions="0-4",
    flexible="3+",
    fields=(
        Field("transactional_id", String),
        Field("producer_id", Int64),
        Field("producer_epoch", Int16),
        Field("group_id", String),
    ),
)

# Starting in version 1, on quota violation brokers send out responses before throttling.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
ADD_OFFSETS_TO_TXN_RESPONSE = Schema(
    "AddOffsetsToTxnResponse",
    api_key=25,
    versions="0-4",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
    ),
)
