"""CreateDelegationToken (38): request and response.

KIPs: 48 (delegation tokens), 373 (tokens for others).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int16, Int32, Int64, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 is the same as version 0.
#
# Version 2 is the first flexible version.
#
# Version 3 adds owner principal
CREATE_DELEGATION_TOKEN_REQUEST = Schema(
    "CreateDelegationTokenRequest",
    api_key=38,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("owner_principal_type", String, "3+", nullable="3+"),
        Field("owner_principal_name", String, "3+", nullable="3+"),
        Field(
            "renewers",
            ArrayOf(
                Structure(
                    "CreatableRenewers",
                    Field("principal_type", String),
                    Field("principal_name", String),
                )
            ),
        ),
        Field("max_lifetime_ms", Int64),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 is the first flexible version.
#
# Version 3 adds token requester details
CREATE_DELEGATION_TOKEN_RESPONSE = Schema(
    "CreateDelegationTokenResponse",
    api_key=38,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("error_code", Int16),
        Field("principal_type", String),
        Field("principal_name", String),
        Field("token_requester_principal_type", String, "3+"),
        Field("token_requester_principal_name", String, "3+"),
        Field("issue_timestamp_ms", Int64),
        Field("expiry_timestamp_ms", Int64),
        Field("max_timestamp_ms", Int64),
        Field("token_id", String),
        Field("hmac", Bytes),
        Field("throttle_time_ms", Int32),
    ),
)
