"""StreamsGroupTopologyValue: a record of group-coordinator.

KIPs: 1071 (streams groups).
"""

from oncelog.protocol.messages.shared_structures import COPARTITION_GROUP
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

_TOPIC_INFO = Structure(
    "TopicInfo",
    Field("name", String),
    Field("partitions", Int32),
    Field("replication_factor", Int16),
    Field(
        "topic_configs",
        ArrayOf(
            Structure(
                "TopicConfig",
                Field("key", String),
                Field("value", String),
            )
        ),
    ),
)

STREAMS_GROUP_TOPOLOGY_VALUE = Schema(
    "StreamsGroupTopologyValue",
    api_key=23,
    versions="0",
    flexible="0+",
    fields=(
        Field("epoch", Int32),
        Field(
            "subtopologies",
            ArrayOf(
                Structure(
                    "Subtopology",
                    Field("subtopology_id", String),
                    Field("source_topics", ArrayOf(String)),
                    Field("source_topic_regex", ArrayOf(String)),
                    Field("state_changelog_topics", ArrayOf(_TOPIC_INFO)),
                    Field("repartition_sink_topics", ArrayOf(String)),
                    Field("repartition_source_topics", ArrayOf(_TOPIC_INFO)),
                    Field("copartition_groups", ArrayOf(COPARTITION_GROUP)),
                )
            ),
        ),
    ),
)
