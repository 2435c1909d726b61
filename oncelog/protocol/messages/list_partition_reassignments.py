"""ListPartitionReassignments (46): request and response.

KIPs: 455 (reassignment by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

LIST_PARTITION_REASSIGNMENTS_REQUEST = Schema(
    "ListPartitionReassignmentsRequest",
    api_key=46,
    versions="0",
    flexible="0+",
    fields=(
        Field("timeout_ms", Int32, default=60000),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ListPartitionReassignmentsTopics",
                    Field("name", String),
                    Field("partition_indexes", ArrayOf(Int32)),
                )
            ),
            nullable="0+",
            default=None,
        ),
    ),
)

LIST_PARTITION_REASSIGNMENTS_RESPONSE = Schema(
    "ListPartitionReassignmentsResponse",
    api_key=46,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OngoingTopicReassignment",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OngoingPartitionReassignment",
                                Field("partition_index", Int32),
                                Field("replicas", ArrayOf(Int32)),
                                Field("adding_replicas", ArrayOf(Int32)),
                                Field("removing_replicas", ArrayOf(Int32)),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
