"""OffsetCommitKey: a record of group-coordinator.

KIPs: none; it is older than they are.
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, String

OFFSET_COMMIT_KEY = Schema(
    "OffsetCommitKey",
    api_key=1,
    versions="0",
    flexible="",
    fields=(
        Field("group", String, "0"),
        Field("topic", String, "0"),
        Field("partition", Int32, "0"),
    ),
)
