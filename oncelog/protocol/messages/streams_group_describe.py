"""StreamsGroupDescribe (89): request and response.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.messages.shared_structures import ENDPOINT, KEY_VALUE, TASK_IDS, TASK_OFFSET, TOPIC_INFO
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String

_ASSIGNMENT = Structure(
    "Assignment",
    Field("active_tasks", ArrayOf(TASK_IDS)),
    Field("standby_tasks", ArrayOf(TASK_IDS)),
    Field("warmup_tasks", ArrayOf(TASK_IDS)),
)

STREAMS_GROUP_DESCRIBE_REQUEST = Schema(
    "StreamsGroupDescribeRequest",
    api_key=89,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_ids", ArrayOf(String)),
        Field("include_authorized_operations", Boolean),
    ),
)

# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - INVALID_REQUEST (version 0+)
# - INVALID_GROUP_ID (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
STREAMS_GROUP_DESCRIBE_RESPONSE = Schema(
    "StreamsGroupDescribeResponse",
    api_key=89,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "DescribedGroup",
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+", default=None),
                    Field("group_id", String),
                    Field("group_state", String),
                    Field("group_epoch", Int32),
                    Field("assignment_epoch", Int32),
                    Field(
                        "topology",
                        Structure(
                            "Topology",
                            Field("epoch", Int32),
                            Field(
                                "subtopologies",
                                ArrayOf(
                                    Structure(
                                        "Subtopology",
                                        Field("subtopology_id", String),
                                        Field("source_topics", ArrayOf(String)),
                                        Field("repartition_sink_topics", ArrayOf(String)),
                                        Field("state_changelog_topics", ArrayOf(TOPIC_INFO)),
                                        Field("repartition_source_topics", ArrayOf(TOPIC_INFO)),
                                    )
                                ),
                                nullable="0+",
                                default=None,
                            ),
                        ),
                        nullable="0+",
                        default=None,
                    ),
                    Field(
                        "members",
                        ArrayOf(
                            Structure(
                                "Member",
                                Field("member_id", String),
                                Field("member_epoch", Int32),
                                Field("instance_id", String, nullable="0+", default=None),
                                Field("rack_id", String, nullable="0+", default=None),
                                Field("client_id", String),
                                Field("client_host", String),
                                Field("topology_epoch", Int32),
                                Field("process_id", String),
                                Field("user_endpoint", ENDPOINT, nullable="0+", default=None),
                                Field("client_tags", ArrayOf(KEY_VALUE)),
                                Field("task_offsets", ArrayOf(TASK_OFFSET)),
                                Field("task_end_offsets", ArrayOf(TASK_OFFSET)),
                                Field("assignment", _ASSIGNMENT),
                                Field("target_assignment", _ASSIGNMENT),
                                Field("is_classic", Boolean),
                            )
                        ),
                    ),
                    Field("authorized_operations", Int32, default=-2147483648),
                )
            ),
        ),
    ),
)
