"""LegacyOffsetCommitKey: a record of group-coordinator.

KIPs: none; it is older than they are.
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32, String

LEGACY_OFFSET_COMMIT_KEY = Schema(
    "LegacyOffsetCommitKey",
    api_key=0,
    versions="0",
    flexible="",
    fields=(
        Field("group", String, "0"),
        Field("topic", String, "0"),
        Field("partition", Int32, "0"),
    ),
)
