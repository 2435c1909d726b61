"""StreamsGroupMemberMetadataKey: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

STREAMS_GROUP_MEMBER_METADATA_KEY = Schema(
    "StreamsGroupMemberMetadataKey",
    api_key=19,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("member_id", String, "0"),
    ),
)
