"""RemoveUserScramCredentialRecord: a record of metadata.

KIPs: 554 (SCRAM users by API), 900 (in the metadata log).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int8, String

REMOVE_USER_SCRAM_CREDENTIAL_RECORD = Schema(
    "RemoveUserScramCredentialRecord",
    api_key=22,
    versions="0",
    flexible="0+",
    fields=(
        Field("name", String),
        Field("mechanism", Int8),
    ),
)
