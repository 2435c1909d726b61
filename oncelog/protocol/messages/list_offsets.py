"""ListOffsets (2): request and response.

KIPs: 79 (search by time), 98 (isolation), 320 (leader epochs), 405 (tiered storage), 734 (largest timestamp), 1005
(last tiered offset), 1023 (first offset to tier), 1075 (timeout).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, Int64, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 removes MaxNumOffsets.  From this version forward, only a single
# offset can be returned.
#
# Version 2 adds the isolation level, which is used for transactional reads.
#
# Version 3 is the same as version 2.
#
# Version 4 adds the current leader epoch, which is used for fencing.
#
# Version 5 is the same as version 4.
#
# Version 6 enables flexible versions.
#
# Version 7 enables listing offsets by max timestamp (KIP-734).
#
# Version 8 enables listing offsets by local log start offset (KIP-405).
#
# Version 9 enables listing offsets by last tiered offset (KIP-1005).
#
# Version 10 enables async remote list offsets support (KIP-1075)
#
# Version 11 enables listing offsets by earliest pending upload offset (KIP-1023)
LIST_OFFSETS_REQUEST = Schema(
    "ListOffsetsRequest",
    api_key=2,
    versions="1-11",
    flexible="6+",
    fields=(
        Field("replica_id", Int32),
        Field("isolation_level", Int8, "2+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ListOffsetsTopic",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "ListOffsetsPartition",
                                Field("partition_index", Int32),
                                Field("current_leader_epoch", Int32, "4+", default=-1),
                                Field("timestamp", Int64),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("timeout_ms", Int32, "10+"),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 removes the offsets array in favor of returning a single offset.
# Version 1 also adds the timestamp associated with the returned offset.
#
# Version 2 adds the throttle time.
#
# Starting in version 3, on quota violation, brokers send out responses before throttling.
#
# Version 4 adds the leader epoch, which is used for fencing.
#
# Version 5 adds a new error code, OFFSET_NOT_AVAILABLE.
#
# Version 6 enables flexible versions.
#
# Version 7 is the same as version 6 (KIP-734).
#
# Version 8 enables listing offsets by local log start offset.
# This is the earliest log start offset in the local log. (KIP-405).
#
# Version 9 enables listing offsets by last tiered offset (KIP-1005).
#
# Version 10 enables async remote list offsets support (KIP-1075)
#
# Version 11 enables listing offsets by earliest pending upload offset (KIP-1023)
LIST_OFFSETS_RESPONSE = Schema(
    "ListOffsetsResponse",
    api_key=2,
    versions="1-11",
    flexible="6+",
    fields=(
        Field("throttle_time_ms", Int32, "2+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ListOffsetsTopicResponse",
                    Field("name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "ListOffsetsPartitionResponse",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("timestamp", Int64, "1+", default=-1),
                                Field("offset", Int64, "1+", default=-1),
                                Field("leader_epoch", Int32, "4+", default=-1),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
