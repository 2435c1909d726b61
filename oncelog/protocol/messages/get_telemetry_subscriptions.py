"""GetTelemetrySubscriptions (71): request and response.

KIPs: 714 (clients' metrics).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String, Uuid

GET_TELEMETRY_SUBSCRIPTIONS_REQUEST = Schema(
    "GetTelemetrySubscriptionsRequest",
    api_key=71,
    versions="0",
    flexible="0+",
    fields=(Field("client_instance_id", Uuid),),
)

GET_TELEMETRY_SUBSCRIPTIONS_RESPONSE = Schema(
    "GetTelemetrySubscriptionsResponse",
    api_key=71,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("client_instance_id", Uuid),
        Field("subscription_id", Int32),
        Field("accepted_compression_types", ArrayOf(Int8)),
        Field("push_interval_ms", Int32),
        Field("telemetry_max_bytes", Int32),
        Field("delta_temporality", Boolean),
        Field("requested_metrics", ArrayOf(String)),
    ),
)
