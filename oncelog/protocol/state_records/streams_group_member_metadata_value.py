"""StreamsGroupMemberMetadataValue: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.messages.shared_structures import ENDPOINT, KEY_VALUE
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int32, String

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
        Field("user_endpoint", ENDPOINT, nullable="0+", default=None),
        Field("client_tags", ArrayOf(KEY_VALUE)),
    ),
)
