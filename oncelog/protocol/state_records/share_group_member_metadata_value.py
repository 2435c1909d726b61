"""ShareGroupMemberMetadataValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_MEMBER_METADATA_VALUE = Schema(
    "ShareGroupMemberMetadataValue",
    api_key=10,
    versions="0",
    flexible="0+",
    fields=(
        Field("rack_id", String, nullable="0+"),
        Field("client_id", String),
        Field("client_host", String),
        Field("subscribed_topic_names", ArrayOf(String)),
    ),
)
