"""ShareGroupCurrentMemberAssignmentValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import TOPIC_PARTITIONS
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int8, Int32

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "ShareGroupCurrentMemberAssignmentValue",
    api_key=14,
    versions="0",
    flexible="0+",
    fields=(
        Field("member_epoch", Int32),
        Field("previous_member_epoch", Int32),
        Field("state", Int8),
        Field("assigned_partitions", ArrayOf(TOPIC_PARTITIONS)),
    ),
)
