"""Fetch (1): request and response.

KIPs: 74 (max_bytes), 98 (isolation), 110 (zstd), 227 (sessions), 320 (leader epochs), 392 (racks), 405 (tiered
storage), 516 (topic ids), 595 (diverging epochs), 853 (directories), 903 (broker epochs), 951 (leaders in the answer),
1166 (high watermark).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, Int64, Records, String, Uuid

# Versions 0-3 were removed in Apache Kafka 4.0, Version 4 is the new baseline.
#
# Version 1 is the same as version 0.
# Starting in Version 2, the requester must be able to handle Kafka Log
# Message format version 1.
# Version 3 adds MaxBytes.  Starting in version 3, the partition ordering in
# the request is now relevant.  Partitions will be processed in the order
# they appear in the request.
#
# Version 4 adds IsolationLevel.  Starting in version 4, the requestor must be
# able to handle Kafka log message format version 2.
#
# Version 5 adds LogStartOffset to indicate the earliest available offset of
# partition data that can be consumed.
#
# Version 6 is the same as version 5.
#
# Version 7 adds incremental fetch request support.
#
# Version 8 is the same as version 7.
#
# Version 9 adds CurrentLeaderEpoch, as described in KIP-320.
#
# Version 10 indicates that we can use the ZStd compression algorithm, as
# described in KIP-110.
# Version 12 adds flexible versions support as well as epoch validation through
# the `LastFetchedEpoch` field
#
# Version 13 replaces topic names with topic IDs (KIP-516). May return UNKNOWN_TOPIC_ID error code.
#
# Version 14 is the same as version 13 but it also receives a new error called
# OffsetMovedToTieredStorageException(KIP-405)
#
# Version 15 adds the ReplicaState which includes new field ReplicaEpoch and the ReplicaId. Also,
# deprecate the old ReplicaId field and set its default value to -1. (KIP-903)
#
# Version 16 is the same as version 15 (KIP-951).
#
# Version 17 adds directory id support from KIP-853
#
# Version 18 adds high-watermark from KIP-1166
FETCH_REQUEST = Schema(
    "FetchRequest",
    api_key=1,
    versions="4-18",
    flexible="12+",
    fields=(
        Field("cluster_id", String, "12+", nullable="12+", default=None, tag=0, tagged="12+"),
        Field("replica_id", Int32, "0-14", default=-1),
        Field(
            "replica_state",
            Structure(
                "ReplicaState",
                Field("replica_id", Int32, "15+", default=-1),
                Field("replica_epoch", Int64, "15+", default=-1),
            ),
            "15+",
            tag=1,
            tagged="15+",
        ),
        Field("max_wait_ms", Int32),
        Field("min_bytes", Int32),
        Field("max_bytes", Int32, "3+", default=2147483647),
        Field("isolation_level", Int8, "4+", default=0),
        Field("session_id", Int32, "7+", default=0),
        Field("session_epoch", Int32, "7+", default=-1),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "FetchTopic",
                    Field("topic", String, "0-12"),
                    Field("topic_id", Uuid, "13+"),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "FetchPartition",
                                Field("partition", Int32),
                                Field("current_leader_epoch", Int32, "9+", default=-1),
                                Field("fetch_offset", Int64),
                                Field("last_fetched_epoch", Int32, "12+", default=-1),
                                Field("log_start_offset", Int64, "5+", default=-1),
                                Field("partition_max_bytes", Int32),
                                Field("replica_directory_id", Uuid, "17+", tag=0, tagged="17+"),
                                Field("high_watermark", Int64, "18+", default=9223372036854775807, tag=1, tagged="18+"),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field(
            "forgotten_topics_data",
            ArrayOf(
                Structure(
                    "ForgottenTopic",
                    Field("topic", String, "7-12"),
                    Field("topic_id", Uuid, "13+"),
                    Field("partitions", ArrayOf(Int32), "7+"),
                )
            ),
            "7+",
        ),
        Field("rack_id", String, "11+"),
    ),
)

# Versions 0-3 were removed in Apache Kafka 4.0, Version 4 is the new baseline.
#
# Version 1 adds throttle time. Version 2 and 3 are the same as version 1.
#
# Version 4 adds features for transactional consumption.
#
# Version 5 adds LogStartOffset to indicate the earliest available offset of
# partition data that can be consumed.
#
# Starting in version 6, we may return KAFKA_STORAGE_ERROR as an error code.
#
# Version 7 adds incremental fetch request support.
#
# Starting in version 8, on quota violation, brokers send out responses before throttling.
#
# Version 9 is the same as version 8.
#
# Version 10 indicates that the response data can use the ZStd compression
# algorithm, as described in KIP-110.
# Version 12 adds support for flexible versions, epoch detection through the `TruncationOffset` field,
# and leader discovery through the `CurrentLeader` field
#
# Version 13 replaces the topic name field with topic ID (KIP-516).
#
# Version 14 is the same as version 13 but it also receives a new error called OffsetMovedToTieredStorageException
# (KIP-405)
#
# Version 15 is the same as version 14 (KIP-903).
#
# Version 16 adds the 'NodeEndpoints' field (KIP-951).
#
# Version 17 no changes to the response (KIP-853).
#
# Version 18 no changes to the response (KIP-1166)
FETCH_RESPONSE = Schema(
    "FetchResponse",
    api_key=1,
    versions="4-18",
    flexible="12+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16, "7+"),
        Field("session_id", Int32, "7+", default=0),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "FetchableTopicResponse",
                    Field("topic", String, "0-12"),
                    Field("topic_id", Uuid, "13+"),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("high_watermark", Int64),
                                Field("last_stable_offset", Int64, "4+", default=-1),
                                Field("log_start_offset", Int64, "5+", default=-1),
                                Field(
                                    "diverging_epoch",
                                    Structure(
                                        "EpochEndOffset",
                                        Field("epoch", Int32, "12+", default=-1),
                                        Field("end_offset", Int64, "12+", default=-1),
                                    ),
                                    "12+",
                                    tag=0,
                                    tagged="12+",
                                ),
                                Field(
                                    "current_leader",
                                    Structure(
                                        "LeaderIdAndEpoch",
                                        Field("leader_id", Int32, "12+", default=-1),
                                        Field("leader_epoch", Int32, "12+", default=-1),
                                    ),
                                    "12+",
                                    tag=1,
                                    tagged="12+",
                                ),
                                Field(
                                    "snapshot_id",
                                    Structure(
                                        "SnapshotId",
                                        Field("end_offset", Int64, default=-1),
                                        Field("epoch", Int32, default=-1),
                                    ),
                                    "12+",
                                    tag=2,
                                    tagged="12+",
                                ),
                                Field(
                                    "aborted_transactions",
                                    ArrayOf(
                                        Structure(
                                            "AbortedTransaction",
                                            Field("producer_id", Int64, "4+"),
                                            Field("first_offset", Int64, "4+"),
                                        )
                                    ),
                                    "4+",
                                    nullable="4+",
                                ),
                                Field("preferred_read_replica", Int32, "11+", default=-1),
                                Field("records", Records, nullable="0+"),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field(
            "node_endpoints",
            ArrayOf(
                Structure(
                    "NodeEndpoint",
                    Field("node_id", Int32, "16+"),
                    Field("host", String, "16+"),
                    Field("port", Int32, "16+"),
                    Field("rack", String, "16+", nullable="16+", default=None),
                )
            ),
            "16+",
            tag=0,
            tagged="16+",
        ),
    ),
)
