"""GroupMetadataKey: a record of group-coordinator.

KIPs: none; it is older than they are.
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import String

GROUP_METADATA_KEY = Schema(
    "GroupMetadataKey",
    api_key=2,
    versions="0",
    flexible="",
    fields=(Field("group", String, "0"),),
)
