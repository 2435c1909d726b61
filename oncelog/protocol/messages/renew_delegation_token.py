"""RenewDelegationToken (39): request and response.

KIPs: 48 (delegation tokens).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Bytes, Int16, Int32, Int64

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 is the same as version 0.
# Version 2 adds flexible version support
RENEW_DELEGATION_TOKEN_REQUEST = Schema(
    "RenewDelegationTokenRequest",
    api_key=39,
    versions="1-2",
    flexible="2+",
    fields=(
        Field("hmac", Bytes),
        Field("renew_period_ms", Int64),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 adds flexible version support
RENEW_DELEGATION_TOKEN_RESPONSE = Schema(
    "RenewDelegationTokenResponse",
    api_key=39,
    versions="1-2",
    flexible="2+",
    fields=(
        Field("error_code", Int16),
        Field("expiry_timestamp_ms", Int64),
        Field("throttle_time_ms", Int32),
    ),
)
