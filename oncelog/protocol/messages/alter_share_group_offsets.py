"""AlterShareGroupOffsets (91): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, Uuid

ALTER_SHARE_GROUP_OFFSETS_REQUEST = Schema(
    "AlterShareGroupOffsetsRequest",
    api_key=91,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "AlterShareGroupOffsetsRequestTopic",
                    Field("topic_name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "AlterShareGroupOffsetsRequestPartition",
                                Field("partition_index", Int32),
                                Field("start_offset", Int64),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - NON_EMPTY_GROUP (version 0+)
# - KAFKA_STORAGE_ERROR (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_SERVER_ERROR (version 0+)
ALTER_SHARE_GROUP_OFFSETS_RESPONSE = Schema(
    "AlterShareGroupOffsetsResponse",
    api_key=91,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "AlterShareGroupOffsetsResponseTopic",
                    Field("topic_name", String),
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "AlterShareGroupOffsetsResponsePartition",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+", default=None),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
