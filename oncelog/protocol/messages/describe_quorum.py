"""DescribeQuorum (55): request and response.

KIPs: 595 (Raft), 836 (lag of voters), 853 (dynamic quorums).
The tagged fields are not Kafka's, whose clients pass over tags that they do not know (KIP-482); their tags are far from
Kafka's own.
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, UInt16, Uuid

# Version 1 adds additional fields in the response. The request is unchanged (KIP-836).
# Version 2 adds additional fields in the response. The request is unchanged (KIP-853).
DESCRIBE_QUORUM_REQUEST = Schema(
    "DescribeQuorumRequest",
    api_key=55,
    versions="0-2",
    flexible="0+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TopicData",
                    Field("topic_name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition_index", Int32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

_REPLICA_STATE = Structure(
    "ReplicaState",
    Field("replica_id", Int32),
    Field("replica_directory_id", Uuid, "2+"),
    Field("log_end_offset", Int64),
    Field("last_fetch_timestamp", Int64, "1+", default=-1),
    Field("last_caught_up_timestamp", Int64, "1+", default=-1),
    Field("leading_since_timestamp", Int64, default=-1, tag=1000, tagged="0+"),
    Field("leading_reason", String, default="", tag=1001, tagged="0+"),
    Field("rounds_behind", Int64, default=-1, tag=1002, tagged="0+"),
)

# Version 1 adds LastFetchTimeStamp and LastCaughtUpTimestamp in ReplicaState (KIP-836).
# Version 2 adds ErrorMessage, Nodes, ErrorMessage in PartitionData, ReplicaDirectoryId in ReplicaState (KIP-853).
DESCRIBE_QUORUM_RESPONSE = Schema(
    "DescribeQuorumResponse",
    api_key=55,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("error_code", Int16),
        Field("error_message", String, "2+", nullable="2+"),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "TopicData",
                    Field("topic_name", String),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, "2+", nullable="2+"),
                                Field("leader_id", Int32),
                                Field("leader_epoch", Int32),
                                Field("high_watermark", Int64),
                                Field("current_voters", ArrayOf(_REPLICA_STATE)),
                                Field("observers", ArrayOf(_REPLICA_STATE)),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field(
            "nodes",
            ArrayOf(
                Structure(
                    "Node",
                    Field("node_id", Int32, "2+"),
                    Field(
                        "listeners",
                        ArrayOf(
                            Structure(
                                "Listener",
                                Field("name", String, "2+"),
                                Field("host", String, "2+"),
                                Field("port", UInt16, "2+"),
                            )
                        ),
                        "2+",
                    ),
                )
            ),
            "2+",
        ),
    ),
)
