"""AlterPartitionReassignments (45): request and response.

KIPs: 455 (reassignment by API), 860 (allow_replication_factor_change).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String

# Version 1 adds the ability to allow/disallow changing the replication factor as part of the request.
ALTER_PARTITION_REASSIGNMENTS_REQUEST = Schema(
    "AlterPartitionReassignmentsRequest",
    api_key=45,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("timeout_ms", Int32, default=60000),
        Field("allow_replication_factor_change", Boolean, "1+", default=True),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ReassignableTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "ReassignablePartition",
                                Field("partition_index", Int32),
                                Field("replicas", ArrayOf(Int32), nullable="0+", default=None),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Version 1 adds the ability to allow/disallow changing the replication factor as part of the request.
ALTER_PARTITION_REASSIGNMENTS_RESPONSE = Schema(
    "AlterPartitionReassignmentsResponse",
    api_key=45,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("allow_replication_factor_change", Boolean, "1+", default=True),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "ReassignableTopicResponse",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "ReassignablePartitionResponse",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
