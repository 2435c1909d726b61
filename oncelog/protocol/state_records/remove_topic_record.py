"""RemoveTopicRecord: a record of metadata.

KIPs: 516 (topic ids), 631 (metadata records).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Uuid

REMOVE_TOPIC_RECORD = Schema(
    "RemoveTopicRecord",
    api_key=9,
    versions="0",
    flexible="0+",
    fields=(Field("topic_id", Uuid),),
)
