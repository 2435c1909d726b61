"""ConfigRecord: a record of metadata.

KIPs: 631 (metadata records).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int8, String

CONFIG_RECORD = Schema(
    "ConfigRecord",
    api_key=4,
    versions="0",
    flexible="0+",
    fields=(
        Field("resource_type", Int8),
        Field("resource_name", String),
        Field("name", String),
        Field("value", String, nullable="0+"),
    ),
)
