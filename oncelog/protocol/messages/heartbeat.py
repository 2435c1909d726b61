"""Heartbeat (12): request and response.

KIPs: 345 (static members).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, Int32, String

# Version 1 and version 2 are the same as version 0.
#
# Starting from version 3, we add a new field called groupInstanceId to indicate member identity across restarts.
#
# Version 4 is the first flexible version.
HEARTBEAT_REQUEST = Schema(
    "HeartbeatRequest",
    api_key=12,
    versions="0-4",
    flexible="4+",
    fields=(
        Field("group_id", String),
        Field("generation_id", Int32),
        Field("member_id", String),
        Field("group_instance_id", String, "3+", nullable="3+", default=None),
    ),
)

# Version 1 adds throttle time.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Starting from version 3, heartbeatRequest supports a new field called groupInstanceId to indicate member identity
# across restarts.
#
# Version 4 is the first flexible version.
HEARTBEAT_RESPONSE = Schema(
    "HeartbeatResponse",
    api_key=12,
    versions="0-4",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16),
    ),
)
