"""OffsetFetch (9): request and response.

KIPs: 320 (leader epochs), 447 (stable offsets), 516 (topic ids), 709 (several groups), 848 (member epochs).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, Int64, String, Uuid

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# In version 0, the request read offsets from ZK.
#
# Starting in version 1, the broker supports fetching offsets from the internal __consumer_offsets topic.
#
# Starting in version 2, the request can contain a null topics array to indicate that offsets
# for all topics should be fetched. It also returns a top level error code
# for group or coordinator level errors.
#
# Version 3, 4, and 5 are the same as version 2.
#
# Version 6 is the first flexible version.
#
# Version 7 is adding the require stable flag.
#
# Version 8 is adding support for fetching offsets for multiple groups at a time.
#
# Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). It adds
# the MemberId and MemberEpoch fields. Those are filled in and validated when the new consumer protocol is used.
#
# Version 10 adds support for topic ids and removes support for topic names (KIP-848).
OFFSET_FETCH_REQUEST = Schema(
    "OffsetFetchRequest",
    api_key=9,
    versions="1-10",
    flexible="6+",
    fields=(
        Field("group_id", String, "0-7"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetFetchRequestTopic",
                    Field("name", String, "0-7"),
                    Field("partition_indexes", ArrayOf(Int32), "0-7"),
                )
            ),
            "0-7",
            nullable="2-7",
        ),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "OffsetFetchRequestGroup",
                    Field("group_id", String, "8+"),
                    Field("member_id", String, "9+", nullable="9+", default=None),
                    Field("member_epoch", Int32, "9+", default=-1),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "OffsetFetchRequestTopics",
                                Field("name", String, "8-9"),
                                Field("topic_id", Uuid, "10+"),
                                Field("partition_indexes", ArrayOf(Int32), "8+"),
                            )
                        ),
                        "8+",
                        nullable="8+",
                    ),
                )
            ),
            "8+",
        ),
        Field("require_stable", Boolean, "7+", default=False),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 is the same as version 0.
#
# Version 2 adds a top-level error code.
#
# Version 3 adds the throttle time.
#
# Starting in version 4, on quota violation, brokers send out responses before throttling.
#
# Version 5 adds the leader epoch to the committed offset.
#
# Version 6 is the first flexible version.
#
# Version 7 adds pending offset commit as new error response on partition level.
#
# Version 8 is adding support for fetching offsets for multiple groups
#
# Version 9 is the first version that can be used with the new consumer group protocol (KIP-848). The response is
# the same as version 8 but can return STALE_MEMBER_EPOCH and UNKNOWN_MEMBER_ID errors when the new consumer group
# protocol is used.
#
# Version 10 adds support for topic ids and removes support for topic names (KIP-848).
# It can return UNKNOWN_TOPIC_ID if topic IDs used and the topic is not found in metadata.
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - UNSTABLE_OFFSET_COMMIT (version 7+)
# - UNKNOWN_MEMBER_ID (version 9+)
# - STALE_MEMBER_EPOCH (version 9+)
# - UNKNOWN_TOPIC_ID (version 10+)
OFFSET_FETCH_RESPONSE = Schema(
    "OffsetFetchResponse",
    api_key=9,
    versions="1-10",
    flexible="6+",
    fields=(
        Field("throttle_time_ms", Int32, "3+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "OffsetFetchResponseTopic",
                    Field("name", String, "0-7"),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "OffsetFetchResponsePartition",
                                Field("partition_index", Int32, "0-7"),
                                Field("committed_offset", Int64, "0-7"),
                                Field("committed_leader_epoch", Int32, "5-7", default=-1),
                                Field("metadata", String, "0-7", nullable="0-7"),
                                Field("error_code", Int16, "0-7"),
                            )
                        ),
                        "0-7",
                    ),
                )
            ),
            "0-7",
        ),
        Field("error_code", Int16, "2-7", default=0),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "OffsetFetchResponseGroup",
                    Field("group_id", String, "8+"),
                    Field(
                        "topics",
                        ArrayOf(
                            Structure(
                                "OffsetFetchResponseTopics",
                                Field("name", String, "8-9"),
                                Field("topic_id", Uuid, "10+"),
                                Field(
                                    "partitions",
                                    ArrayOf(
                                        Structure(
                                            "OffsetFetchResponsePartitions",
                                            Field("partition_index", Int32, "8+"),
                                            Field("committed_offset", Int64, "8+"),
                                            Field("committed_leader_epoch", Int32, "8+", default=-1),
                                            Field("metadata", String, "8+", nullable="8+"),
                                            Field("error_code", Int16, "8+"),
                                        )
                                    ),
                                    "8+",
                                ),
                            )
                        ),
                        "8+",
                    ),
                    Field("error_code", Int16, "8+", default=0),
                )
            ),
            "8+",
        ),
    ),
)
