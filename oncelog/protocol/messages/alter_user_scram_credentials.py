"""AlterUserScramCredentials (51): request and response.

KIPs: 554 (SCRAM credentials by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int8, Int16, Int32, String

ALTER_USER_SCRAM_CREDENTIALS_REQUEST = Schema(
    "AlterUserScramCredentialsRequest",
    api_key=51,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "deletions",
            ArrayOf(
                Structure(
                    "ScramCredentialDeletion",
                    Field("name", String),
                    Field("mechanism", Int8),
                )
            ),
        ),
        Field(
            "upsertions",
            ArrayOf(
                Structure(
                    "ScramCredentialUpsertion",
                    Field("name", String),
                    Field("mechanism", Int8),
                    Field("iterations", Int32),
                    Field("salt", Bytes),
                    Field("salted_password", Bytes),
                )
            ),
        ),
    ),
)

ALTER_USER_SCRAM_CREDENTIALS_RESPONSE = Schema(
    "AlterUserScramCredentialsResponse",
    api_key=51,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "AlterUserScramCredentialsResult",
                    Field("user", String),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+"),
                )
            ),
        ),
    ),
)
