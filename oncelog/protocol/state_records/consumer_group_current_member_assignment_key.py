"""ConsumerGroupCurrentMemberAssignmentKey: a record of group-coordinator.

KIPs: 848 (the consumer protocol).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = Schema(
    "ConsumerGroupCurrentMemberAssignmentKey",
    api_key=8,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("member_id", String, "0"),
    ),
)
