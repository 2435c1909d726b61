"""ShareUpdateKey: a record of share-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, String, Uuid

SHARE_UPDATE_KEY = Schema(
    "ShareUpdateKey",
    api_key=1,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("topic_id", Uuid, "0"),
        Field("partition", Int32, "0"),
    ),
)
