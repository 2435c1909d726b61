"""ConsumerGroupHeartbeat (68): request and response.

KIPs: 848 (the consumer protocol), 1082 (member ids made by members).
"""

from oncelog.protocol.messages.shared_structures import ASSIGNMENT, TOPIC_PARTITIONS
from oncelog.protocol.schema import ArrayOf, Field, Schema
from oncelog.protocol.types import Int16, Int32, String

# Version 1 adds SubscribedTopicRegex (KIP-848), and requires the consumer to generate their own Member ID (KIP-1082)
CONSUMER_GROUP_HEARTBEAT_REQUEST = Schema(
    "ConsumerGroupHeartbeatRequest",
    api_key=68,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field("member_id", String),
        Field("member_epoch", Int32),
        Field("instance_id", String, nullable="0+", default=None),
        Field("rack_id", String, nullable="0+", default=None),
        Field("rebalance_timeout_ms", Int32, default=-1),
        Field("subscribed_topic_names", ArrayOf(String), nullable="0+", default=None),
        Field("subscribed_topic_regex", String, "1+", nullable="1+", default=None),
        Field("server_assignor", String, nullable="0+", default=None),
        Field("topic_partitions", ArrayOf(TOPIC_PARTITIONS), nullable="0+", default=None),
    ),
)

# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_MEMBER_ID (version 0+)
# - FENCED_MEMBER_EPOCH (version 0+)
# - UNSUPPORTED_ASSIGNOR (version 0+)
# - UNRELEASED_INSTANCE_ID (version 0+)
# - GROUP_MAX_SIZE_REACHED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - INVALID_REGULAR_EXPRESSION (version 1+)
CONSUMER_GROUP_HEARTBEAT_RESPONSE = Schema(
    "ConsumerGroupHeartbeatResponse",
    api_key=68,
    versions="0-1",
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
