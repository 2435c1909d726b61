"""AccessControlEntryRecord: a record of metadata.

KIPs: 631 (metadata records), 801 (StandardAuthorizer).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int8, String, Uuid

ACCESS_CONTROL_ENTRY_RECORD = Schema(
    "AccessControlEntryRecord",
    api_key=18,
    versions="0",
    flexible="0+",
    fields=(
        Field("id", Uuid),
        Field("resource_type", Int8),
        Field("resource_name", String),
        Field("pattern_type", Int8),
        Field("principal", String),
        Field("host", String),
        Field("operation", Int8),
        Field("permission_type", Int8),
    ),
)
