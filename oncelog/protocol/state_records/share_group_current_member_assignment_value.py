"""ShareGroupCurrentMemberAssignmentValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int32, Uuid

SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "ShareGroupCurrentMemberAssignmentValue",
    api_key=14,
    versions="0",
    flexible="0+",
    fields=(
        Field("member_epoch", Int32),
        Field("previous_member_epoch", Int32),
        Field("state", Int8),
        Field(
            "assigned_partitions",
            ArrayOf(
                Structure(
                    "TopicPartitions",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
    ),
)
