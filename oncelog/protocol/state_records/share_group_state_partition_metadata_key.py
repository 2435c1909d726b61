"""ShareGroupStatePartitionMetadataKey: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

SHARE_GROUP_STATE_PARTITION_METADATA_KEY = Schema(
    "ShareGroupStatePartitionMetadataKey",
    api_key=15,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
