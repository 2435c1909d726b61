"""UnregisterBroker (64): request and response.

KIPs: 631 (brokers registered with the controller).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, Int32, String

UNREGISTER_BROKER_REQUEST = Schema(
    "UnregisterBrokerRequest",
    api_key=64,
    versions="0",
    flexible="0+",
    fields=(Field("broker_id", Int32),),
)

UNREGISTER_BROKER_RESPONSE = Schema(
    "UnregisterBrokerResponse",
    api_key=64,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
    ),
)
