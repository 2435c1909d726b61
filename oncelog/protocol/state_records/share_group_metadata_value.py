"""ShareGroupMetadataValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

SHARE_GROUP_METADATA_VALUE = Schema(
    "ShareGroupMetadataValue",
    api_key=11,
    versions="0",
    flexible="0+",
    fields=(
        Field("epoch", Int32),
        Field("metadata_hash", Int64),
    ),
)
