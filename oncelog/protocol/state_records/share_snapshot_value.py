"""ShareSnapshotValue: a record of share-coordinator.

KIPs: 932 (share groups), 1226 (the count of completed deliveries).
"""

from oncelog.protocol.messages.shared_structures import STATE_BATCH
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int32, Int64

SHARE_SNAPSHOT_VALUE = Schema(
    "ShareSnapshotValue",
    api_key=0,
    versions="0",
    flexible="0+",
    fields=(
        Field("snapshot_epoch", Int32),
        Field("state_epoch", Int32),
        Field("leader_epoch", Int32),
        Field("start_offset", Int64),
        Field("delivery_complete_count", Int32, default=-1, tag=0, tagged="0+"),
        Field("create_timestamp", Int64),
        Field("write_timestamp", Int64),
        Field("state_batches", ArrayOf(STATE_BATCH)),
    ),
)
