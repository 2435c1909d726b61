"""StreamsGroupMemberMetadataValue: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, String, UInt16

STREAMS_GROUP_MEMBER_METADATA_VALUE = Schema(
    "StreamsGroupMemberMetadataValue",
    api_key=19,
    versions="0",
    flexible="0+",
    fields=(
        Field("instance_id", String, nullable="0+"),
        Field("rack_id", String, nullable="0+"),
        Field("client_id", String),
        Field("client_host", String),
        Field("rebalance_timeout_ms", Int32, default=-1),
        Field("topology_epoch", Int32),
        Field("process_id", String),
        Field(
            "user_endpoint",
            Structure(
                "Endpoint",
                Field("host", String),
                Field("port", UInt16),
            ),
            nullable="0+",
            default=None,
        ),
        Field(
            "client_tags",
            ArrayOf(
                Structure(
                    "KeyValue",
                    Field("key", String),
                    Field("value", String),
                )
            ),
        ),
    ),
)
