"""StreamsGroupTargetAssignmentMetadataKey: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = Schema(
    "StreamsGroupTargetAssignmentMetadataKey",
    api_key=20,
    versions="0",
    flexible="",
    fields=(Field("group_id", String, "0"),),
)
