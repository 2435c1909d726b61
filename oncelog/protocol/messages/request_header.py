"""RequestHeader.

KIPs: 482 (flexible versions).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, Int32, String

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 0 of the RequestHeader is only used by v0 of ControlledShutdownRequest.
#
# Version 1 is the first version with ClientId.
#
# Version 2 is the first flexible version.
REQUEST_HEADER = Schema(
    "RequestHeader",
    api_key=None,
    versions="1-2",
    flexible="2+",
    fields=(
        Field("request_api_key", Int16),
        Field("request_api_version", Int16),
        Field("correlation_id", Int32),
        Field("client_id", String, "1+", nullable="1+", plain=True),
    ),
)
