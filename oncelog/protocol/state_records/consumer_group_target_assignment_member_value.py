"""ConsumerGroupTargetAssignmentMemberValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, Uuid

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "ConsumerGroupTargetAssignmentMemberValue",
    api_key=7,
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
