"""PushTelemetry (72): request and response.

KIPs: 714 (clients' metrics).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Boolean, Bytes, Int8, Int16, Int32, Uuid

PUSH_TELEMETRY_REQUEST = Schema(
    "PushTelemetryRequest",
    api_key=72,
    versions="0",
    flexible="0+",
    fields=(
        Field("client_instance_id", Uuid),
        Field("subscription_id", Int32),
        Field("terminating", Boolean),
        Field("compression_type", Int8),
        Field("metrics", Bytes),
    ),
)

PUSH_TELEMETRY_RESPONSE = Schema(
    "PushTelemetryResponse",
    api_key=72,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
    ),
)
