"""DelegationTokenRecord: a record of metadata.

KIPs: 48 (delegation tokens), 900 (in the metadata log).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int64, String

DELEGATION_TOKEN_RECORD = Schema(
    "DelegationTokenRecord",
    api_key=10,
    versions="0",
    flexible="0+",
    fields=(
        Field("owner", String),
        Field("requester", String),
        Field("renewers", ArrayOf(String)),
        Field("issue_timestamp", Int64),
        Field("max_timestamp", Int64),
        Field("expiration_timestamp", Int64),
        Field("token_id", String),
    ),
)
