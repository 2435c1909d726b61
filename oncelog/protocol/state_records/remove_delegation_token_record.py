"""RemoveDelegationTokenRecord: a record of metadata.

KIPs: 48 (delegation tokens), 900 (in the metadata log).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

REMOVE_DELEGATION_TOKEN_RECORD = Schema(
    "RemoveDelegationTokenRecord",
    api_key=26,
    versions="0",
    flexible="0+",
    fields=(Field("token_id", String),),
)
