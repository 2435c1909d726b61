"""Metadata (3): request and response.

KIPs: 4 (no topics, all topics), 78 (cluster id), 112 (offline replicas), 320 (leader epochs), 430 (authorized
operations), 516 (topic ids), 700 (cluster operations moved), 1102 (rebootstrap).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String, Uuid

METADATA_REQUEST = Schema(
    "MetadataRequest",
    api_key=3,
    versions="0-13",
    flexible="9+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "MetadataRequestTopic",
                    Field("topic_id", Uuid, "10+"),
                    Field("name", String, nullable="10+"),
                )
            ),
            nullable="1+",
        ),
        Field("allow_auto_topic_creation", Boolean, "4+", default=True),
        Field("include_cluster_authorized_operations", Boolean, "8-10"),
        Field("include_topic_authorized_operations", Boolean, "8+"),
    ),
)

# Version 1 adds fields for the rack of each broker, the controller id, and whether or not the topic is internal.
#
# Version 2 adds the cluster ID field.
#
# Version 3 adds the throttle time.
#
# Version 4 is the same as version 3.
#
# Version 5 adds a per-partition offline_replicas field. This field specifies
# the list of replicas that are offline.
#
# Starting in version 6, on quota violation, brokers send out responses before throttling.
#
# Version 7 adds the leader epoch to the partition metadata.
#
# Starting in version 8, brokers can send authorized operations for topic and cluster.
#
# Version 9 is the first flexible version.
#
# Version 10 adds topicId.
#
# Version 11 deprecates ClusterAuthorizedOperations. This is now exposed
# by the DescribeCluster API (KIP-700).
# Version 12 supports topicId.
# Version 13 supports top-level error code in the response.
METADATA_RESPONSE = Schema(
    "MetadataResponse",
    api_key=3,
    versions="0-13",
    flexible="9+",
    fields=(
        Field("throttle_time_ms", Int32, "3+"),
        Field(
            "brokers",
            ArrayOf(
                Structure(
                    "MetadataResponseBroker",
                    Field("node_id", Int32),
                    Field("host", String),
                    Field("port", Int32),
                    Field("rack", String, "1+", nullable="1+", default=None),
                )
            ),
        ),
        Field("cluster_id", String, "2+", nullable="2+", default=None),
        Field("controller_id", Int32, "1+", default=-1),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "MetadataResponseTopic",
                    Field("error_code", Int16),
                    Field("name", String, nullable="12+"),
                    Field("topic_id", Uuid, "10+"),
                    Field("is_internal", Boolean, "1+", default=False),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "MetadataResponsePartition",
                                Field("error_code", Int16),
                                Field("partition_index", Int32),
                                Field("leader_id", Int32),
                                Field("leader_epoch", Int32, "7+", default=-1),
                                Field("replica_nodes", ArrayOf(Int32)),
                                Field("isr_nodes", ArrayOf(Int32)),
                                Field("offline_replicas", ArrayOf(Int32), "5+"),
                            )
                        ),
                    ),
                    Field("topic_authorized_operations", Int32, "8+", default=-2147483648),
                )
            ),
        ),
        Field("cluster_authorized_operations", Int32, "8-10", default=-2147483648),
        Field("error_code", Int16, "13+"),
    ),
)
