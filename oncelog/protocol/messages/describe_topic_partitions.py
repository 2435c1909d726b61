"""DescribeTopicPartitions (75): request and response.

KIPs: 966 (eligible leader replicas).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String, Uuid

_CURSOR = Structure(
    "Cursor",
    Field("topic_name", String),
    Field("partition_index", Int32),
)

DESCRIBE_TOPIC_PARTITIONS_REQUEST = Schema(
    "DescribeTopicPartitionsRequest",
    api_key=75,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TopicRequest",
                    Field("name", String),
                )
            ),
        ),
        Field("response_partition_limit", Int32, default=2000),
        Field("cursor", _CURSOR, nullable="0+", default=None),
    ),
)

DESCRIBE_TOPIC_PARTITIONS_RESPONSE = Schema(
    "DescribeTopicPartitionsResponse",
    api_key=75,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DescribeTopicPartitionsResponseTopic",
                    Field("error_code", Int16),
                    Field("name", String, nullable="0+"),
                    Field("topic_id", Uuid),
                    Field("is_internal", Boolean, default=False),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "DescribeTopicPartitionsResponsePartition",
                                Field("error_code", Int16),
                                Field("partition_index", Int32),
                                Field("leader_id", Int32),
                                Field("leader_epoch", Int32, default=-1),
                                Field("replica_nodes", ArrayOf(Int32)),
                                Field("isr_nodes", ArrayOf(Int32)),
                                Field("eligible_leader_replicas", ArrayOf(Int32), nullable="0+", default=None),
                                Field("last_known_elr", ArrayOf(Int32), nullable="0+", default=None),
                                Field("offline_replicas", ArrayOf(Int32)),
                            )
                        ),
                    ),
                    Field("topic_authorized_operations", Int32, default=-2147483648),
                )
            ),
        ),
        Field("next_cursor", _CURSOR, nullable="0+", default=None),
    ),
)
