"""OffsetDelete (47): request and response.

KIPs: 496 (offsets deleted by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

OFFSET_DELETE_REQUEST = Schema(
    "OffsetDeleteRequest",
    api_key=47,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetDeleteRequestTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetDeleteRequestPartition",
                                Field("partition_index", Int32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

OFFSET_DELETE_RESPONSE = Schema(
    "OffsetDeleteResponse",
    api_key=47,
    versions="0",
    flexible="",
    fields=(
        Field("error_code", Int16),
        Field("throttle_time_ms", Int32),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetDeleteResponseTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetDeleteResponsePartition",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
