"""ShareGroupTargetAssignmentMetadataKey: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Schema(
    "ShareGroupTargetAssignmentMetadataKey",
    api_key=12,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
