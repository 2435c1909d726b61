"""InitProducerId (22): request and response.

KIPs: 98 (idempotence and transactions), 360 (epochs bumped by producers), 890 (TRANSACTION_ABORTABLE), 939 (two-phase
commit).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String

# Version 1 is the same as version 0.
#
# Version 2 is the first flexible version.
#
# Version 3 adds ProducerId and ProducerEpoch, allowing producers to try to resume after an INVALID_PRODUCER_EPOCH
# error
#
# Version 4 adds the support for new error code PRODUCER_FENCED.
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 6 adds support for 2PC (KIP-939).
INIT_PRODUCER_ID_REQUEST = Schema(
    "InitProducerIdRequest",
    api_key=22,
    versions="0-6",
    flexible="2+",
    fields=(
        Field("transactional_id", String, nullable="0+"),
        Field("transaction_timeout_ms", Int32),
        Field("producer_id", Int64, "3+", default=-1),
        Field("producer_epoch", Int16, "3+", default=-1),
        Field("enable2_pc", Boolean, "6+", default=False),
        Field("keep_prepared_txn", Boolean, "6+", default=False),
    ),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 is the first flexible version.
#
# Version 3 is the same as version 2.
#
# Version 4 adds the support for new error code PRODUCER_FENCED.
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 6 adds support for 2PC (KIP-939).
INIT_PRODUCER_ID_RESPONSE = Schema(
    "InitProducerIdResponse",
    api_key=22,
    versions="0-6",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("producer_id", Int64, default=-1),
        Field("producer_epoch", Int16),
        Field("ongoing_txn_producer_id", Int64, "6+", default=-1),
        Field("ongoing_txn_producer_epoch", Int16, "6+", default=-1),
    ),
)
