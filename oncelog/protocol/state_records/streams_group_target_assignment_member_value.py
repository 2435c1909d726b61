"""StreamsGroupTargetAssignmentMemberValue: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.messages.shared_structures import TASK_IDS
from oncelog.protocol.schema import ArrayOf, Field, Schema

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "StreamsGroupTargetAssignmentMemberValue",
    api_key=21,
    versions="0",
    flexible="0+",
    fields=(
        Field("active_tasks", ArrayOf(TASK_IDS)),
        Field("standby_tasks", ArrayOf(TASK_IDS)),
        Field("warmup_tasks", ArrayOf(TASK_IDS)),
    ),
)
