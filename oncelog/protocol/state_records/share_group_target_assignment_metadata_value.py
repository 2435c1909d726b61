"""ShareGroupTargetAssignmentMetadataValue: a record of group-coordinator.

KIPs: 932 (share groups), 1263 (assignments at intervals).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "ShareGroupTargetAssignmentMetadataValue",
    api_key=12,
    versions="0",
    flexible="0+",
    fields=(
        Field("assignment_epoch", Int32),
        Field("assignment_timestamp", Int64, default=0, tag=0, tagged="0+"),
    ),
)
