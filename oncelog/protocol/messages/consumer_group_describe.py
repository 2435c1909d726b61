"""ConsumerGroupDescribe (69): request and response.

KIPs: 848 (the consumer protocol), 1099 (member type).
"""

from oncelog.protocol.messages.shared_structures import DESCRIBED_ASSIGNMENT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, String

# Version 1 adds MemberType field to ConsumerGroupDescribeResponse (KIP-1099).
# For ConsumerGroupDescribeRequest, version 1 is same as version 0.
CONSUMER_GROUP_DESCRIBE_REQUEST = Schema(
    "ConsumerGroupDescribeRequest",
    api_key=69,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("group_ids", ArrayOf(String)),
        Field("include_authorized_operations", Boolean),
    ),
)

# Version 1 adds MemberType field (KIP-1099).
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - INVALID_REQUEST (version 0+)
# - INVALID_GROUP_ID (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
CONSUMER_GROUP_DESCRIBE_RESPONSE = Schema(
    "ConsumerGroupDescribeResponse",
    api_key=69,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "DescribedGroup",
                    Field("error_code", Int16),
                    Field("error_message", String, nullable="0+", default=None),
                    Field("group_id", String),
                    Field("group_state", String),
                    Field("group_epoch", Int32),
                    Field("assignment_epoch", Int32),
                    Field("assignor_name", String),
                    Field(
                        "members",
                        ArrayOf(
                            Structure(
                                "Member",
                                Field("member_id", String),
                                Field("instance_id", String, nullable="0+", default=None),
                                Field("rack_id", String, nullable="0+", default=None),
                                Field("member_epoch", Int32),
                                Field("client_id", String),
                                Field("client_host", String),
                                Field("subscribed_topic_names", ArrayOf(String)),
                                Field("subscribed_topic_regex", String, nullable="0+", default=None),
                                Field("assignment", DESCRIBED_ASSIGNMENT),
                                Field("target_assignment", DESCRIBED_ASSIGNMENT),
                                Field("member_type", Int8, "1+", default=-1),
                            )
                        ),
                    ),
                    Field("authorized_operations", Int32, default=-2147483648),
                )
            ),
        ),
    ),
)
