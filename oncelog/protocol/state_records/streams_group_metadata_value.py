"""StreamsGroupMetadataValue: a record of group-coordinator.

KIPs: 1071 (streams groups), 915 (tagged fields).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, Int64, String

STREAMS_GROUP_METADATA_VALUE = Schema(
    "StreamsGroupMetadataValue",
    api_key=17,
    versions="0",
    flexible="0+",
    fields=(
        Field("epoch", Int32),
        Field("metadata_hash", Int64),
        Field("validated_topology_epoch", Int32, default=-1, tag=0, tagged="0+"),
        Field(
            "last_assignment_configs",
            ArrayOf(
                Structure(
                    "LastAssignmentConfig",
                    Field("key", String),
                    Field("value", String),
                )
            ),
            nullable="0+",
            tag=1,
            tagged="0+",
        ),
    ),
)
