"""ShareGroupMemberMetadataKey: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_MEMBER_METADATA_KEY = Schema(
    "ShareGroupMemberMetadataKey",
    api_key=10,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("member_id", String, "0"),
    ),
)
