"""OffsetCommitValue: a record of group-coordinator.

KIPs: 211 (retention), 320 (leader epochs), 516 (topic ids), 915 (tagged fields).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, Int64, String, Uuid

# Version 4 is the first flexible version.
# KIP-915: bumping the version will no longer make this record backward compatible.
# We suggest to add/remove only tagged fields to maintain backward compatibility.
OFFSET_COMMIT_VALUE = Schema(
    "OffsetCommitValue",
    api_key=1,
    versions="0-4",
    flexible="4+",
    fields=(
        Field("offset", Int64),
        Field("leader_epoch", Int32, "3+", default=-1),
        Field("metadata", String),
        Field("commit_timestamp", Int64),
        Field("expire_timestamp", Int64, "1", default=-1),
        Field("topic_id", Uuid, "4+", tag=0, tagged="4+"),
    ),
)
