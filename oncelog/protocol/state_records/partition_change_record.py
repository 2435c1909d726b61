"""PartitionChangeRecord: a record of metadata.

KIPs: 631 (metadata records), 858 (directories), 966 (eligible leader replicas).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int8, Int32, Uuid

# Version 1 adds Directories for KIP-858.
# Version 2 implements Eligible Leader Replicas and LastKnownElr as described in KIP-966.
PARTITION_CHANGE_RECORD = Schema(
    "PartitionChangeRecord",
    api_key=5,
    versions="0-2",
    flexible="0+",
    fields=(
        Field("partition_id", Int32, default=-1),
        Field("topic_id", Uuid),
        Field("isr", ArrayOf(Int32), nullable="0+", default=None, tag=0, tagged="0+"),
        Field("leader", Int32, default=-2, tag=1, tagged="0+"),
        Field("replicas", ArrayOf(Int32), nullable="0+", default=None, tag=2, tagged="0+"),
        Field("removing_replicas", ArrayOf(Int32), nullable="0+", default=None, tag=3, tagged="0+"),
        Field("adding_replicas", ArrayOf(Int32), nullable="0+", default=None, tag=4, tagged="0+"),
        Field("leader_recovery_state", Int8, default=-1, tag=5, tagged="0+"),
        Field("directories", ArrayOf(Uuid), "1+", nullable="1+", default=None, tag=8, tagged="1+"),
        Field("eligible_leader_replicas", ArrayOf(Int32), "2+", nullable="2+", default=None, tag=6, tagged="2+"),
        Field("last_known_elr", ArrayOf(Int32), "2+", nullable="2+", default=None, tag=7, tagged="2+"),
    ),
)
