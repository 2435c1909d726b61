"""ElectLeaders (43): request and response.

KIPs: 183 (preferred leaders by API), 460 (kinds of election).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

# Version 1 implements multiple leader election types, as described by KIP-460.
#
# Version 2 is the first flexible version.
ELECT_LEADERS_REQUEST = Schema(
    "ElectLeadersRequest",
    api_key=43,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("election_type", Int8, "1+"),
        Field(
            "topic_partitions",
            ArrayOf(
                Structure(
                    "TopicPartitions",
                    Field("topic", String),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
            nullable="0+",
        ),
        Field("timeout_ms", Int32, default=60000),
    ),
)

# Version 1 adds a top-level error code.
#
# Version 2 is the first flexible version.
ELECT_LEADERS_RESPONSE = Schema(
    "ElectLeadersResponse",
    api_key=43,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16, "1+"),
        Field(
            "replica_election_results",
            ArrayOf(
                Structure(
                    "ReplicaElectionResult",
                    Field("topic", String),
                    Field(
                        "partition_result",
                        ArrayOf(
                            Structure(
                                "PartitionResult",
                                Field("partition_id", Int32),
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
