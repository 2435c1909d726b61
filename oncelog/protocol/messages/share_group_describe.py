"""ShareGroupDescribe (77): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import DESCRIBED_ASSIGNMENT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
SHARE_GROUP_DESCRIBE_REQUEST = Schema(
    "ShareGroupDescribeRequest",
    api_key=77,
    versions="1",
    flexible="0+",
    fields=(
        Field("group_ids", ArrayOf(String)),
        Field("include_authorized_operations", Boolean),
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
# - INVALID_GROUP_ID (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - INVALID_REQUEST (version 0+)
SHARE_GROUP_DESCRIBE_RESPONSE = Schema(
    "ShareGroupDescribeResponse",
    api_key=77,
    versions="1",
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
                                Field("rack_id", String, nullable="0+", default=None),
                                Field("member_epoch", Int32),
                                Field("client_id", String),
                                Field("client_host", String),
                                Field("subscribed_topic_names", ArrayOf(String)),
                                Field("assignment", DESCRIBED_ASSIGNMENT),
                            )
                        ),
                    ),
                    Field("authorized_operations", Int32, default=-2147483648),
                )
            ),
        ),
    ),
)
