"""The structures that several messages or state records repeat, each under the name that Kafka gives it.

Two of one name and different fields are two structures: an assignment of a description has the names of its topics.

KIPs: 133 (settings), 546 (quotas), 848 (consumer groups), 932 (share groups), 1071 (streams groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Structure
from oncelog.protocol.types import Int8, Int16, Int32, Int64, String, UInt16, Uuid

KEY_VALUE = Structure(
    "KeyValue",
    Field("key", String),
    Field("value", String),
)
ENDPOINT = Structure(
    "Endpoint",
    Field("host", String),
    Field("port", UInt16),
)
TASK_IDS = Structure(
    "TaskIds",
    Field("subtopology_id", String),
    Field("partitions", ArrayOf(Int32)),
)
TASK_OFFSET = Structure(
    "TaskOffset",
    Field("subtopology_id", String),
    Field("partition", Int32),
    Field("offset", Int64),
)
TOPIC_INFO = Structure(
    "TopicInfo",
    Field("name", String),
    Field("partitions", Int32),
    Field("replication_factor", Int16),
    Field("topic_configs", ArrayOf(KEY_VALUE)),
)
COPARTITION_GROUP = Structure(
    "CopartitionGroup",
    Field("source_topics", ArrayOf(Int16)),
    Field("source_topic_regex", ArrayOf(Int16)),
    Field("repartition_source_topics", ArrayOf(Int16)),
)
TOPIC_PARTITIONS = Structure(
    "TopicPartitions",
    Field("topic_id", Uuid),
    Field("partitions", ArrayOf(Int32)),
)
ASSIGNMENT = Structure("Assignment", Field("topic_partitions", ArrayOf(TOPIC_PARTITIONS)))
DESCRIBED_ASSIGNMENT = Structure(
    "Assignment",
    Field(
        "topic_partitions",
        ArrayOf(
            Structure(
                "TopicPartitions",
                Field("topic_id", Uuid),
                Field("topic_name", String),
                Field("partitions", ArrayOf(Int32)),
            )
        ),
    ),
)
STATE_BATCH = Structure(
    "StateBatch",
    Field("first_offset", Int64),
    Field("last_offset", Int64),
    Field("delivery_state", Int8),
    Field("delivery_count", Int16),
)
PARTITION_RESULT = Structure(
    "PartitionResult",
    Field("partition", Int32),
    Field("error_code", Int16),
    Field("error_message", String, nullable="0+", default=None),
)
ACKNOWLEDGEMENT_BATCH = Structure(
    "AcknowledgementBatch",
    Field("first_offset", Int64),
    Field("last_offset", Int64),
    Field("acknowledge_types", ArrayOf(Int8)),
)
LEADER_ID_AND_EPOCH = Structure(
    "LeaderIdAndEpoch",
    Field("leader_id", Int32),
    Field("leader_epoch", Int32),
)
NODE_ENDPOINT = Structure(
    "NodeEndpoint",
    Field("node_id", Int32),
    Field("host", String),
    Field("port", Int32),
    Field("rack", String, nullable="0+", default=None),
)
ENTITY_DATA = Structure(
    "EntityData",
    Field("entity_type", String),
    Field("entity_name", String, nullable="0+"),
)
ALTER_CONFIGS_RESOURCE_RESPONSE = Structure(
    "AlterConfigsResourceResponse",
    Field("error_code", Int16),
    Field("error_message", String, nullable="0+"),
    Field("resource_type", Int8),
    Field("resource_name", String),
)
