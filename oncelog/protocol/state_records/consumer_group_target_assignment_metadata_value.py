"""ConsumerGroupTargetAssignmentMetadataValue: a record of group-coordinator.

KIPs: 848 (the consumer protocol), 915 (tagged fields).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "ConsumerGroupTargetAssignmentMetadataValue",
    api_key=6,
    versions="0",
    flexible="0+",
    fields=(
        Field("assignment_epoch", Int32),
        Field("assignment_timestamp", Int64, default=0, tag=0, tagged="0+"),
    ),
)
