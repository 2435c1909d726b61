"""StreamsGroupMetadataKey: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

STREAMS_GROUP_METADATA_KEY = Schema(
    "StreamsGroupMetadataKey",
    api_key=17,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
