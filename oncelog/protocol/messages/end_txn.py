"""EndTxn (26): request and response.

KIPs: 98 (transactions), 890 (a new epoch with each end).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String

# Version 1 is the same as version 0.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 5 enables bumping epoch on every transaction (KIP-890 Part 2)
END_TXN_REQUEST = Schema(
    "EndTxnRequest",
    api_key=26,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("transactional_id", String),
        Field("producer_id", Int64),
        Field("producer_epoch", Int16),
        Field("committed", Boolean),
    ),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 adds the support for new error code PRODUCER_FENCED.
#
# Version 3 enables flexible versions.
#
# Version 4 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 5 enables bumping epoch on every transaction (KIP-890 Part 2), so producer ID and epoch are included in the
# response.
END_TXN_RESPONSE = Schema(
    "EndTxnResponse",
    api_key=26,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("producer_id", Int64, "5+", default=-1),
        Field("producer_epoch", Int16, "5+", default=-1),
    ),
)
