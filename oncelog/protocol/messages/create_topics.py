"""CreateTopics (19): request and response.

KIPs: 4 (topics by API), 464 (the broker's defaults), 516 (topic ids), 525 (configs in the answer), 599 (throttling).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String, Uuid

# Versions 0-1 were removed in Apache Kafka 4.0, Version 2 is the new baseline.
#
# Version 1 adds validateOnly.
#
# Version 4 makes partitions/replicationFactor optional even when assignments are not present (KIP-464)
#
# Version 5 is the first flexible version.
# Version 5 also returns topic configs in the response (KIP-525).
#
# Version 6 is identical to version 5 but may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the topics creation is throttled (KIP-599).
#
# Version 7 is the same as version 6.
CREATE_TOPICS_REQUEST = Schema(
    "CreateTopicsRequest",
    api_key=19,
    versions="2-7",
    flexible="5+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "CreatableTopic",
                    Field("name", String),
                    Field("num_partitions", Int32),
                    Field("replication_factor", Int16),
                    Field(
                        "assignments",
                        ArrayOf(
                            Structure(
                                "CreatableReplicaAssignment",
                                Field("partition_index", Int32),
                                Field("broker_ids", ArrayOf(Int32)),
                            )
                        ),
                    ),
                    Field(
                        "configs",
                        ArrayOf(
                            Structure(
                                "CreatableTopicConfig",
                                Field("name", String),
                                Field("value", String, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("timeout_ms", Int32, default=60000),
        Field("validate_only", Boolean, "1+", default=False),
    ),
)

# Versions 0-1 were removed in Apache Kafka 4.0, Version 2 is the new baseline.
#
# Version 1 adds a per-topic error message string.
#
# Version 2 adds the throttle time.
#
# Starting in version 3, on quota violation, brokers send out responses before throttling.
#
# Version 4 makes partitions/replicationFactor optional even when assignments are not present (KIP-464).
#
# Version 5 is the first flexible version.
# Version 5 also returns topic configs in the response (KIP-525).
#
# Version 6 is identical to version 5 but may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the topics creation is throttled (KIP-599).
#
# Version 7 returns the topic ID of the newly created topic if creation is successful.
CREATE_TOPICS_RESPONSE = Schema(
    "CreateTopicsResponse",
    api_key=19,
    versions="2-7",
    flexible="5+",
    fields=(
        Field("throttle_time_ms", Int32, "2+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "CreatableTopicResult",
                    Field("name", String),
                    Field("topic_id", Uuid, "7+"),
                    Field("error_code", Int16),
                    Field("error_message", String, "1+", nullable="0+"),
                    Field("topic_config_error_code", Int16, "5+", tag=0, tagged="5+"),
                    Field("num_partitions", Int32, "5+", default=-1),
                    Field("replication_factor", Int16, "5+", default=-1),
                    Field(
                        "configs",
                        ArrayOf(
                            Structure(
                                "CreatableTopicConfigs",
                                Field("name", String, "5+"),
                                Field("value", String, "5+", nullable="5+"),
                                Field("read_only", Boolean, "5+"),
                                Field("config_source", Int8, "5+", default=-1),
                                Field("is_sensitive", Boolean, "5+"),
                            )
                        ),
                        "5+",
                        nullable="5+",
                    ),
                )
            ),
        ),
    ),
)
