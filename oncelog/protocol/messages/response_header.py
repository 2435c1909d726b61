"""ResponseHeader.

KIPs: 482 (flexible versions), 511 (never flexible for ApiVersions).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int32

# Version 1 is the first flexible version.
RESPONSE_HEADER = Schema(
    "ResponseHeader",
    api_key=None,
    versions="0-1",
    flexible="1+",
    fields=(Field("correlation_id", Int32),),
)
