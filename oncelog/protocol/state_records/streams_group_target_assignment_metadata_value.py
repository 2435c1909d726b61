"""StreamsGroupTargetAssignmentMetadataValue: a record of group-coordinator.

KIPs: 1071 (streams groups), 915 (tagged fields).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = Schema(
    "StreamsGroupTargetAssignmentMetadataValue",
    api_key=20,
    versions="0",
    flexible="0+",
    fields=(
        Field("assignment_epoch", Int32),
        Field("assignment_timestamp", Int64, default=0, tag=0, tagged="0+"),
    ),
)
