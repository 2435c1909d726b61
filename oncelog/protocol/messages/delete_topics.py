"""DeleteTopics (20): request and response.

KIPs: 4 (topics by API), 516 (topic ids), 599 (throttling).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String, Uuid

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
# Versions 0, 1, 2, and 3 are the same.
#
# Version 4 is the first flexible version.
#
# Version 5 adds ErrorMessage in the response and may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the topics deletion is throttled (KIP-599).
#
# Version 6 reorganizes topics, adds topic IDs and allows topic names to be null.
DELETE_TOPICS_REQUEST = Schema(
    "DeleteTopicsRequest",
    api_key=20,
    versions="1-6",
    flexible="4+",
    fields=(
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DeleteTopicState",
                    Field("name", String, "6+", nullable="6+", default=None),
                    Field("topic_id", Uuid, "6+"),
                )
            ),
            "6+",
        ),
        Field("topic_names", ArrayOf(String), "0-5"),
        Field("timeout_ms", Int32),
    ),
)

# Version 0 was removed in Apache Kafka 4.0, Version 1 is the new baseline.
#
# Version 1 adds the throttle time.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Starting in version 3, a TOPIC_DELETION_DISABLED error code may be returned.
#
# Version 4 is the first flexible version.
#
# Version 5 adds ErrorMessage in the response and may return a THROTTLING_QUOTA_EXCEEDED error
# in the response if the topics deletion is throttled (KIP-599).
#
# Version 6 adds topic ID to responses. An UNSUPPORTED_VERSION error code will be returned when attempting to
# delete using topic IDs when IBP < 2.8. UNKNOWN_TOPIC_ID error code will be returned when IBP is at least 2.8, but
# the topic ID was not found.
DELETE_TOPICS_RESPONSE = Schema(
    "DeleteTopicsResponse",
    api_key=20,
    versions="1-6",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "DeletableTopicResult",
                    Field("name", String, nullable="6+"),
                    Field("topic_id", Uuid, "6+"),
                    Field("error_code", Int16),
                    Field("error_message", String, "5+", nullable="5+", default=None),
                )
            ),
        ),
    ),
)
