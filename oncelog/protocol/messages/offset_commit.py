"""OffsetCommit (8): request and response.

KIPs: 211 (retention), 320 (leader epochs), 345 (static members), 516 (topic ids), 848 (member epochs).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, Uuid

# Versions 0-1 were removed in Apache Kafka 4.0, Version 2 is the new baseline.
#
# Version 1 adds timestamp and group membership information, as well as the commit timestamp.
#
# Version 2 adds retention time.  It removes the commit timestamp added in version 1.
#
# Version 3 and 4 are the same as version 2.
#
# Version 5 removes the retention time, which is now controlled only by a broker configuration.
#
# Version 6 adds the leader epoch for fencing.
#
# version 7 adds a new field called groupInstanceId to indicate member identity across restarts.
#
# Version 8 is the first flexible version.
#
# Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). The
# request is the same as version 8.
#
# Version 10 adds support for topic ids and removes support for topic names (KIP-848).
OFFSET_COMMIT_REQUEST = Schema(
    "OffsetCommitRequest",
    api_key=8,
    versions="2-10",
    flexible="8+",
    fields=(
        Field("group_id", String),
        Field("generation_id_or_member_epoch", Int32, "1+", default=-1),
        Field("member_id", String, "1+"),
        Field("group_instance_id", String, "7+", nullable="7+", default=None),
        Field("retention_time_ms", Int64, "2-4", default=-1),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetCommitRequestTopic",
                    Field("name", String, "0-9"),
                    Field("topic_id", Uuid, "10+"),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetCommitRequestPartition",
                                Field("partition_index", Int32),
                                Field("committed_offset", Int64),
                                Field("committed_leader_epoch", Int32, "6+", default=-1),
                                Field("committed_metadata", String, nullable="0+"),
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
# Versions 1 and 2 are the same as version 0.
#
# Version 3 adds the throttle time to the response.
#
# Starting in version 4, on quota violation, brokers send out responses before throttling.
#
# Versions 5 and 6 are the same as version 4.
#
# Version 7 offsetCommitRequest supports a new field called groupInstanceId to indicate member identity across
# restarts.
#
# Version 8 is the first flexible version.
#
# Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). The response is
# the same as version 8 but can return STALE_MEMBER_EPOCH when the new consumer group protocol is used and
# GROUP_ID_NOT_FOUND when the group does not exist for both protocols.
#
# Version 10 adds support for topic ids and removes support for topic names (KIP-848).
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - ILLEGAL_GENERATION (version 1+)
# - UNKNOWN_MEMBER_ID (version 1+)
# - INVALID_COMMIT_OFFSET_SIZE (version 0+)
# - FENCED_MEMBER_EPOCH (version 7+)
# - GROUP_ID_NOT_FOUND (version 9+)
# - STALE_MEMBER_EPOCH (version 9+)
# - UNKNOWN_TOPIC_ID (version 10+)
OFFSET_COMMIT_RESPONSE = Schema(
    "OffsetCommitResponse",
    api_key=8,
    versions="2-10",
    flexible="8+",
    fields=(
        Field("throttle_time_ms", Int32, "3+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetCommitResponseTopic",
                    Field("name", String, "0-9"),
                    Field("topic_id", Uuid, "10+"),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetCommitResponsePartition",
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
