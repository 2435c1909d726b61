"""ClientQuotaRecord: a record of metadata.

KIPs: 546 (client quotas), 631 (metadata records).
"""

from oncelog.protocol.messages.shared_structures import ENTITY_DATA
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Boolean, Float64, String

CLIENT_QUOTA_RECORD = Schema(
    "ClientQuotaRecord",
    api_key=14,
    versions="0",
    flexible="0+",
    fields=(
        Field("entity", ArrayOf(ENTITY_DATA)),
        Field("key", String),
        Field("value", Float64),
        Field("remove", Boolean),
    ),
)
