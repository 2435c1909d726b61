"""RemoveAccessControlEntryRecord: a record of metadata.

KIPs: 631 (metadata records), 801 (StandardAuthorizer).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Uuid

REMOVE_ACCESS_CONTROL_ENTRY_RECORD = Schema(
    "RemoveAccessControlEntryRecord",
    api_key=19,
    versions="0",
    flexible="0+",
    fields=(Field("id", Uuid),),
)
