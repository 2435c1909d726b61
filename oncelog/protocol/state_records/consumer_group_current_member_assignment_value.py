"""ConsumerGroupCurrentMemberAssignmentValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int32, Uuid

_TOPIC_PARTITIONS = Structure(
    "TopicPartitions",
    Field("topic_id", Uuid),
    Field("partitions", ArrayOf(Int32)),
    Field("assignment_epochs", ArrayOf(Int32), nullable="0+", tag=0, tagged="0+"),
)

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "ConsumerGroupCurrentMemberAssignmentValue",
    api_key=8,
    versions="0",
    flexible="0+",
    fields=(
        Field("member_epoch", Int32),
        Field("previous_member_epoch", Int32),
        Field("state", Int8),
        Field("assigned_partitions", ArrayOf(_TOPIC_PARTITIONS)),
        Field("partitions_pending_revocation", ArrayOf(_TOPIC_PARTITIONS)),
    ),
)
