"""AlterReplicaLogDirs (34): request and response.

KIPs: 113 (several log directories).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 is the same as version 0.
# Version 2 enables flexible versions.
ALTER_REPLICA_LOG_DIRS_REQUEST = Schema(
    "AlterReplicaLogDirsRequest",
    api_key=34,
    versions="1-2",
    flexible="2+",
    fields=(
        Field(
            "dirs",
            ArrayOf(
                Structure(
                    "AlterReplicaLogDir",
                    Field("path", String),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "AlterReplicaLogDirTopic",
                                Field("name", String),
                                Field("partitions", ArrayOf(Int32)),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Starting in version 1, on quota violation brokers send out responses before throttling.
# Version 2 enables flexible versions.
ALTER_REPLICA_LOG_DIRS_RESPONSE = Schema(
    "AlterReplicaLogDirsResponse",
    api_key=34,
    versions="1-2",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "AlterReplicaLogDirTopicResult",
                    Field("topic_name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "AlterReplicaLogDirPartitionResult",
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
