"""CreatePartitions (37): request and response.

KIPs: 195 (more partitions by API), 599 (throttling).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String

# Version 1 is the same as version 0.
#
# Version 2 adds flexible version support
#
# Version 3 is identical to version 2 but may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the partitions creation is throttled (KIP-599).
CREATE_PARTITIONS_REQUEST = Schema(
    "CreatePartitionsRequest",
    api_key=37,
    versions="0-3",
    flexible="2+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "CreatePartitionsTopic",
                    Field("name", String),
                    Field("count", Int32),
                    Field(
                        "assignments",
                        ArrayOf(
                            Structure(
                                "CreatePartitionsAssignment",
                                Field("broker_ids", ArrayOf(Int32)),
                            )
                        ),
                        nullable="0+",
                    ),
                )
            ),
        ),
        Field("timeout_ms", Int32),
        Field("validate_only", Boolean),
    ),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 adds flexible version support
#
# Version 3 is identical to version 2 but may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the partitions creation is throttled (KIP-599).
CREATE_PARTITIONS_RESPONSE = Schema(
    "CreatePartitionsResponse",
    api_key=37,
    versions="0-3",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "CreatePartitionsTopicResult",
                    Field("name", String),
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+", default=None),
                )
            ),
        ),
    ),
)
