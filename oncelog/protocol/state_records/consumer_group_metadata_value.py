"""ConsumerGroupMetadataValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

CONSUMER_GROUP_METADATA_VALUE = Schema(
    "ConsumerGroupMetadataValue",
    api_key=3,
    versions="0",
    flexible="0+",
    fields=(
        Field("epoch", Int32),
        Field("metadata_hash", Int64, default=0, tag=0, tagged="0+"),
    ),
)
