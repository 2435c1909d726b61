"""StreamsGroupTargetAssignmentMemberValue: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, String

STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(
    "StreamsGroupTargetAssignmentMemberValue",
    api_key=21,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "active_tasks",
            ArrayOf(
                Structure(
                    "TaskIds",
                    Field("subtopology_id", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
        Field(
            "standby_tasks",
            ArrayOf(
                Structure(
                    "TaskIds",
                    Field("subtopology_id", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
        Field(
            "warmup_tasks",
            ArrayOf(
                Structure(
                    "TaskIds",
                    Field("subtopology_id", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
    ),
)
