"""ShareGroupMetadataKey: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_METADATA_KEY = Schema(
    "ShareGroupMetadataKey",
    api_key=11,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
