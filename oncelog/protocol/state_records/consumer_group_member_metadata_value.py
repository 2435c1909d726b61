"""ConsumerGroupMemberMetadataValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int32, String

CONSUMER_GROUP_MEMBER_METADATA_VALUE = Schema(
    "ConsumerGroupMemberMetadataValue",
    api_key=5,
    versions="0",
    flexible="0+",
    fields=(
        Field("instance_id", String, nullable="0+"),
        Field("rack_id", String, nullable="0+"),
        Field("client_id", String),
        Field("client_host", String),
        Field("subscribed_topic_names", ArrayOf(String)),
        Field("subscribed_topic_regex", String, nullable="0+"),
        Field("rebalance_timeout_ms", Int32, default=-1),
        Field("server_assignor", String, nullable="0+"),
        Field(
            "classic_member_metadata",
            Structure(
                "ClassicMemberMetadata",
                Field("session_timeout_ms", Int32),
                Field(
                    "supported_protocols",
                    ArrayOf(
                        Structure(
                            "ClassicProtocol",
                            Field("name", String),
                            Field("metadata", Bytes),
                        )
                    ),
                ),
            ),
            nullable="0+",
            tag=0,
            tagged="0+",
        ),
    ),
)
