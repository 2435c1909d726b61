"""DescribeDelegationToken (41): request and response.

KIPs: 48 (delegation tokens), 373 (tokens for others).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int16, Int32, Int64, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Version 1 is the same as version 0.
# Version 2 adds flexible version support
# Version 3 adds token requester into the response
DESCRIBE_DELEGATION_TOKEN_REQUEST = Schema(
    "DescribeDelegationTokenRequest",
    api_key=41,
    versions="1-3",
    flexible="2+",
    fields=(
        Field(
            "owners",
            ArrayOf(
                Structure(
                    "DescribeDelegationTokenOwner",
                    Field("principal_type", String),
                    Field("principal_name", String),
                )
            ),
            nullable="0+",
        ),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Starting in version 1, on quota violation, brokers send out responses before throttling.
# Version 2 adds flexible version support
# Version 3 adds token requester details
DESCRIBE_DELEGATION_TOKEN_RESPONSE = Schema(
    "DescribeDelegationTokenResponse",
    api_key=41,
    versions="1-3",
    flexible="2+",
    fields=(
        Field("error_code", Int16),
        Field(
            "tokens",
            ArrayOf(
                Structure(
                    "DescribedDelegationToken",
                    Field("principal_type", String),
                    Field("principal_name", String),
                    Field("token_requester_principal_type", String, "3+"),
                    Field("token_requester_principal_name", String, "3+"),
                    Field("issue_timestamp", Int64),
                    Field("expiry_timestamp", Int64),
                    Field("max_timestamp", Int64),
                    Field("token_id", String),
                    Field("hmac", Bytes),
                    Field(
                        "renewers",
                        ArrayOf(
                            Structure(
                                "DescribedDelegationTokenRenewer",
                                Field("principal_type", String),
                                Field("principal_name", String),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("throttle_time_ms", Int32),
    ),
)
