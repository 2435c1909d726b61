"""ShareGroupCurrentMemberAssignmentKey: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Schema(
    "ShareGroupCurrentMemberAssignmentKey",
    api_key=14,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("member_id", String, "0"),
    ),
)
