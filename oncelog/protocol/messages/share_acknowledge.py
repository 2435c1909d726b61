"""ShareAcknowledge (79): request and response.

KIPs: 932 (share groups), 1222 (renewed locks).
"""

from oncelog.protocol.messages.shared_structures import ACKNOWLEDGEMENT_BATCH, LEADER_ID_AND_EPOCH, NODE_ENDPOINT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String, Uuid

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
#
# Version 2 introduces Renew acknowledgements (KIP-1222).
SHARE_ACKNOWLEDGE_REQUEST = Schema(
    "ShareAcknowledgeRequest",
    api_key=79,
    versions="1-2",
    flexible="0+",
    fields=(
        Field("group_id", String, nullable="0+", default=None),
        Field("member_id", String, nullable="0+"),
        Field("share_session_epoch", Int32),
        Field("is_renew_ack", Boolean, "2+", default=False),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "AcknowledgeTopic",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "AcknowledgePartition",
                                Field("partition_index", Int32),
                                Field("acknowledgement_batches", ArrayOf(ACKNOWLEDGEMENT_BATCH)),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
#
# Version 2 introduces Renew acknowledgements (KIP-1222).
# Supported errors:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
# - SHARE_SESSION_NOT_FOUND (version 0+)
# - INVALID_SHARE_SESSION_EPOCH (version 0+)
# - NOT_LEADER_OR_FOLLOWER (version 0+)
# - UNKNOWN_TOPIC_ID (version 0+)
# - INVALID_RECORD_STATE (version 0+)
# - KAFKA_STORAGE_ERROR (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_SERVER_ERROR (version 0+)
SHARE_ACKNOWLEDGE_RESPONSE = Schema(
    "ShareAcknowledgeResponse",
    api_key=79,
    versions="1-2",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field("acquisition_lock_timeout_ms", Int32, "2+"),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "ShareAcknowledgeTopicResponse",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+", default=None),
                                Field("current_leader", LEADER_ID_AND_EPOCH),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("node_endpoints", ArrayOf(NODE_ENDPOINT)),
    ),
)
