"""ShareGroupStatePartitionMetadataValue: a record of group-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, String, Uuid

_TOPIC_PARTITIONS_INFO = Structure(
    "TopicPartitionsInfo",
    Field("topic_id", Uuid),
    Field("topic_name", String),
    Field("partitions", ArrayOf(Int32)),
)

SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = Schema(
    "ShareGroupStatePartitionMetadataValue",
    api_key=15,
    versions="0",
    flexible="0+",
    fields=(
        Field("initializing_topics", ArrayOf(_TOPIC_PARTITIONS_INFO)),
        Field("initialized_topics", ArrayOf(_TOPIC_PARTITIONS_INFO)),
        Field(
            "deleting_topics",
            ArrayOf(
                Structure(
                    "TopicInfo",
                    Field("topic_id", Uuid),
                    Field("topic_name", String),
                )
            ),
        ),
    ),
)
