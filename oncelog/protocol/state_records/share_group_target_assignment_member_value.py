"""ShareGroupTargetAssignmentMemberValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, Uuid

SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "ShareGroupTargetAssignmentMemberValue",
    api_key=13,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "topic_partitions",
            ArrayOf(
                Structure(
                    "TopicPartition",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
    ),
)
