"""ConsumerGroupTargetAssignmentMemberKey: a record of group-coordinator.

KIPs: 848 (the consumer protocol).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = Schema(
    "ConsumerGroupTargetAssignmentMemberKey",
    api_key=7,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("member_id", String, "0"),
    ),
)
