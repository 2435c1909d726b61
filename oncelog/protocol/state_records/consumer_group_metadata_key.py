"""ConsumerGroupMetadataKey: a record of group-coordinator.

KIPs: 848 (the consumer protocol).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

CONSUMER_GROUP_METADATA_KEY = Schema(
    "ConsumerGroupMetadataKey",
    api_key=3,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
