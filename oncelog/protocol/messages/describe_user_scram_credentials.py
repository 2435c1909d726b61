"""DescribeUserScramCredentials (50): request and response.

KIPs: 554 (SCRAM credentials by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

DESCRIBE_USER_SCRAM_CREDENTIALS_REQUEST = Schema(
    "DescribeUserScramCredentialsRequest",
    api_key=50,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "users",
            ArrayOf(
                Structure(
                    "UserName",
                    Field("name", String),
                )
            ),
            nullable="0+",
        ),
    ),
)

DESCRIBE_USER_SCRAM_CREDENTIALS_RESPONSE = Schema(
    "DescribeUserScramCredentialsResponse",
    api_key=50,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "DescribeUserScramCredentialsResult",
                    Field("user", String),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                    Field(
                        "credential_infos",
                        ArrayOf(
                            Structure(
                                "CredentialInfo",
                                Field("mechanism", Int8),
                                Field("iterations", Int32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
