"""ShareGroupHeartbeat (76): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import ASSIGNMENT
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int16, Int32, String

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
SHARE_GROUP_HEARTBEAT_REQUEST = Schema(
    "ShareGroupHeartbeatRequest",
    api_key=76,
    versions="1",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field("member_id", String),
        Field("member_epoch", Int32),
        Field("rack_id", String, nullable="0+", default=None),
        Field("subscribed_topic_names", ArrayOf(String), nullable="0+", default=None),
    ),
)

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 1+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - UNKNOWN_MEMBER_ID (version 0+)
# - GROUP_MAX_SIZE_REACHED (version 0+)
# - INVALID_REQUEST (version 0+)
SHARE_GROUP_HEARTBEAT_RESPONSE = Schema(
    "ShareGroupHeartbeatResponse",
    api_key=76,
    versions="1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field("member_id", String, nullable="0+", default=None),
        Field("member_epoch", Int32),
        Field("heartbeat_interval_ms", Int32),
        Field("assignment", ASSIGNMENT, nullable="0+", default=None),
    ),
)
