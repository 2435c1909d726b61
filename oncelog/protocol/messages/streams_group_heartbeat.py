"""StreamsGroupHeartbeat (88): request and response.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.messages.shared_structures import (
    COPARTITION_GROUP,
    ENDPOINT,
    KEY_VALUE,
    TASK_IDS,
    TASK_OFFSET,
    TOPIC_INFO,
)
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String

_TOPIC_PARTITION = Structure(
    "TopicPartition",
    Field("topic", String),
    Field("partitions", ArrayOf(Int32)),
)

STREAMS_GROUP_HEARTBEAT_REQUEST = Schema(
    "StreamsGroupHeartbeatRequest",
    api_key=88,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field("member_id", String),
        Field("member_epoch", Int32),
        Field("endpoint_information_epoch", Int32),
        Field("instance_id", String, nullable="0+", default=None),
        Field("rack_id", String, nullable="0+", default=None),
        Field("rebalance_timeout_ms", Int32, default=-1),
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
                            Field("source_topic_regex", ArrayOf(String)),
                            Field("state_changelog_topics", ArrayOf(TOPIC_INFO)),
                            Field("repartition_sink_topics", ArrayOf(String)),
                            Field("repartition_source_topics", ArrayOf(TOPIC_INFO)),
                            Field("copartition_groups", ArrayOf(COPARTITION_GROUP)),
                        )
                    ),
                ),
            ),
            nullable="0+",
            default=None,
        ),
        Field("active_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("standby_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("warmup_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("process_id", String, nullable="0+", default=None),
        Field("user_endpoint", ENDPOINT, nullable="0+", default=None),
        Field("client_tags", ArrayOf(KEY_VALUE), nullable="0+", default=None),
        Field("task_offsets", ArrayOf(TASK_OFFSET), nullable="0+", default=None),
        Field("task_end_offsets", ArrayOf(TASK_OFFSET), nullable="0+", default=None),
        Field("shutdown_application", Boolean, default=False),
    ),
)

# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_MEMBER_ID (version 0+)
# - FENCED_MEMBER_EPOCH (version 0+)
# - UNRELEASED_INSTANCE_ID (version 0+)
# - GROUP_MAX_SIZE_REACHED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - CLUSTER_AUTHORIZATION_FAILED (version 0+)
# - STREAMS_INVALID_TOPOLOGY (version 0+)
# - STREAMS_INVALID_TOPOLOGY_EPOCH (version 0+)
# - STREAMS_TOPOLOGY_FENCED (version 0+)
STREAMS_GROUP_HEARTBEAT_RESPONSE = Schema(
    "StreamsGroupHeartbeatResponse",
    api_key=88,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field("member_id", String),
        Field("member_epoch", Int32),
        Field("heartbeat_interval_ms", Int32),
        Field("acceptable_recovery_lag", Int32),
        Field("task_offset_interval_ms", Int32),
        Field(
            "status",
            ArrayOf(
                Structure(
                    "Status",
                    Field("status_code", Int8),
                    Field("status_detail", String),
                )
            ),
            nullable="0+",
        ),
        Field("active_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("standby_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("warmup_tasks", ArrayOf(TASK_IDS), nullable="0+", default=None),
        Field("endpoint_information_epoch", Int32),
        Field(
            "partitions_by_user_endpoint",
            ArrayOf(
                Structure(
                    "EndpointToPartitions",
                    Field("user_endpoint", ENDPOINT),
                    Field("active_partitions", ArrayOf(_TOPIC_PARTITION)),
                    Field("standby_partitions", ArrayOf(_TOPIC_PARTITION)),
                )
            ),
            nullable="0+",
            default=None,
        ),
    ),
)
