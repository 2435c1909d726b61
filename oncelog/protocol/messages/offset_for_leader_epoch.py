"""OffsetForLeaderEpoch (23): request and response.

KIPs: 101 (leader epochs), 279 (epochs in the answer), 320 (fencing, clients).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String

# Versions 0-1 were removed in Apache Kafka 4.0, Version 2 is the new baseline.
#
# Version 1 is the same as version 0.
#
# Version 2 adds the current leader epoch to support fencing.
#
# Version 3 adds ReplicaId (the default is -2 which conventionally represents a
# "debug" consumer which is allowed to see offsets beyond the high watermark).
# Followers will use this replicaId when using an older version of the protocol.
#
# Version 4 enables flexible versions.
OFFSET_FOR_LEADER_EPOCH_REQUEST = Schema(
    "OffsetForLeaderEpochRequest",
    api_key=23,
    versions="2-4",
    flexible="4+",
    fields=(
        Field("replica_id", Int32, "3+", default=-2),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetForLeaderTopic",
                    Field("topic", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetForLeaderPartition",
                                Field("partition", Int32),
                                Field("current_leader_epoch", Int32, "2+", default=-1),
                                Field("leader_epoch", Int32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Versions 0-1 were removed in Apache Kafka 4.0, Version 2 is the new baseline.
#
# Version 1 added the leader epoch to the response.
#
# Version 2 added the throttle time.
#
# Version 3 is the same as version 2.
#
# Version 4 enables flexible versions.
OFFSET_FOR_LEADER_EPOCH_RESPONSE = Schema(
    "OffsetForLeaderEpochResponse",
    api_key=23,
    versions="2-4",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32, "2+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetForLeaderTopicResult",
                    Field("topic", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "EpochEndOffset",
                                Field("error_code", Int16),
                                Field("partition", Int32),
                                Field("leader_epoch", Int32, "1+", default=-1),
                                Field("end_offset", Int64, default=-1),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
