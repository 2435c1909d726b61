"""StreamsGroupCurrentMemberAssignmentValue: a record of group-coordinator.

KIPs: 1071 (streams groups), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int32, String

_TASK_IDS = Structure(
    "TaskIds",
    Field("subtopology_id", String),
    Field("partitions", ArrayOf(Int32)),
    Field("assignment_epochs", ArrayOf(Int32), nullable="0+", tag=0, tagged="0+"),
)

STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(
    "StreamsGroupCurrentMemberAssignmentValue",
    api_key=22,
    versions="0",
    flexible="0+",
    fields=(
        Field("member_epoch", Int32),
        Field("previous_member_epoch", Int32),
        Field("state", Int8),
        Field("active_tasks", ArrayOf(_TASK_IDS)),
        Field("standby_tasks", ArrayOf(_TASK_IDS)),
        Field("warmup_tasks", ArrayOf(_TASK_IDS)),
        Field("active_tasks_pending_revocation", ArrayOf(_TASK_IDS)),
        Field("standby_tasks_pending_revocation", ArrayOf(_TASK_IDS)),
        Field("warmup_tasks_pending_revocation", ArrayOf(_TASK_IDS)),
    ),
)
