"""UserScramCredentialRecord: a record of metadata.

KIPs: 554 (SCRAM users by API), 900 (in the metadata log).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Bytes, Int8, Int32, String

USER_SCRAM_CREDENTIAL_RECORD = Schema(
    "UserScramCredentialRecord",
    api_key=11,
    versions="0",
    flexible="0+",
    fields=(
        Field("name", String),
        Field("mechanism", Int8),
        Field("salt", Bytes),
        Field("stored_key", Bytes),
        Field("server_key", Bytes),
        Field("iterations", Int32),
    ),
)
