"""SaslAuthenticate (36): request and response.

KIPs: 152 (SASL inside Kafka's protocol), 368 (sessions that end).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Bytes, Int16, Int64, String

# Version 1 is the same as version 0.
# Version 2 adds flexible version support
SASL_AUTHENTICATE_REQUEST = Schema(
    "SaslAuthenticateRequest",
    api_key=36,
    versions="0-2",
    flexible="2+",
    fields=(Field("auth_bytes", Bytes),),
)

# Version 1 adds the session lifetime.
# Version 2 adds flexible version support
SASL_AUTHENTICATE_RESPONSE = Schema(
    "SaslAuthenticateResponse",
    api_key=36,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
        Field("auth_bytes", Bytes),
        Field("session_lifetime_ms", Int64, "1+", default=0),
    ),
)
