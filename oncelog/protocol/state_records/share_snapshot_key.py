"""ShareSnapshotKey: a record of share-coordinator.

KIPs: 932 (share groups).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, String, Uuid

SHARE_SNAPSHOT_KEY = Schema(
    "ShareSnapshotKey",
    api_key=0,
    versions="0",
    flexible="",
    fields=(
        Field("group_id", String, "0"),
        Field("topic_id", Uuid, "0"),
        Field("partition", Int32, "0"),
    ),
)
