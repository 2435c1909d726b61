"""DeleteShareGroupOffsets (92): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String, Uuid

DELETE_SHARE_GROUP_OFFSETS_REQUEST = Schema(
    "DeleteShareGroupOffsetsRequest",
    api_key=92,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DeleteShareGroupOffsetsRequestTopic",
                    Field("topic_name", String),
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
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
DELETE_SHARE_GROUP_OFFSETS_RESPONSE = Schema(
    "DeleteShareGroupOffsetsResponse",
    api_key=92,
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
                    "DeleteShareGroupOffsetsResponseTopic",
                    Field("topic_name", String),
                    Field("topic_id", Uuid),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+", default=None),
                )
            ),
        ),
    ),
)
