"""TopicRecord: a record of metadata.

KIPs: 516 (topic ids), 631 (metadata records).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String, Uuid

TOPIC_RECORD = Schema(
    "TopicRecord",
    api_key=2,
    versions="0",
    flexible="0+",
    fields=(
        Field("name", String),
        Field("topic_id", Uuid),
    ),
)
