"""DescribeShareGroupOffsets (90): request and response.

KIPs: 932 (share groups), 1226 (lag).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, Uuid

# Version 0 is the initial version (KIP-932).
#
# Version 1 introduces Lag in the response (KIP-1226).
DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST = Schema(
    "DescribeShareGroupOffsetsRequest",
    api_key=90,
    versions="0-1",
    flexible="0+",
    fields=(
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "DescribeShareGroupOffsetsRequestGroup",
                    Field("group_id", String),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "DescribeShareGroupOffsetsRequestTopic",
                                Field("topic_name", String),
                                Field("partitions", ArrayOf(Int32)),
                            )
                        ),
                        nullable="0+",
                    ),
                )
            ),
        ),
    ),
)

# Version 0 is the initial version (KIP-932).
#
# Version 1 introduces Lag (KIP-1226).
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_SERVER_ERROR (version 0+)
DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE = Schema(
    "DescribeShareGroupOffsetsResponse",
    api_key=90,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "DescribeShareGroupOffsetsResponseGroup",
                    Field("group_id", String),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "DescribeShareGroupOffsetsResponseTopic",
                                Field("topic_name", String),
                                Field("topic_id", Uuid),
                                Field(
                                    "partitions",
                                    ArrayOf(
                                        Structure(
                                            "DescribeShareGroupOffsetsResponsePartition",
                                            Field("partition_index", Int32),
                                            Field("start_offset", Int64),
                                            Field("leader_epoch", Int32),
                                            Field("lag", Int64, "1+", default=-1),
                                            Field("error_code", Int16),
                                            Field("error_message", String, nullable="0+", default=None),
                                        )
                                    ),
                                ),
                            )
                        ),
                    ),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+", default=None),
                )
            ),
        ),
    ),
)
