"""ShareFetch (78): request and response.

KIPs: 932 (share groups), 1206 (strict limits), 1222 (renewed locks).
"""

from oncelog.protocol.messages.shared_structures import ACKNOWLEDGEMENT_BATCH, LEADER_ID_AND_EPOCH, NODE_ENDPOINT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int8, Int16, Int32, Int64, Records, String, Uuid

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
#
# Version 2 introduces ShareAcquireMode and Renew acknowledgements (KIP-1206 and KIP-1222).
SHARE_FETCH_REQUEST = Schema(
    "ShareFetchRequest",
    api_key=78,
    versions="1-2",
    flexible="0+",
    fields=(
        Field("group_id", String, nullable="0+", default=None),
        Field("member_id", String, nullable="0+"),
        Field("share_session_epoch", Int32),
        Field("max_wait_ms", Int32),
        Field("min_bytes", Int32),
        Field("max_bytes", Int32, default=2147483647),
        Field("max_records", Int32, "1+"),
        Field("batch_size", Int32, "1+"),
        Field("share_acquire_mode", Int8, "2+", default=0),
        Field("is_renew_ack", Boolean, "2+", default=False),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "FetchTopic",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "FetchPartition",
                                Field("partition_index", Int32),
                                Field("partition_max_bytes", Int32, "0"),
                                Field("acknowledgement_batches", ArrayOf(ACKNOWLEDGEMENT_BATCH)),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field(
            "forgotten_topics_data",
            ArrayOf(
                Structure(
                    "ForgottenTopic",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(Int32)),
                )
            ),
        ),
    ),
)

# Version 0 was used for early access of KIP-932 in Apache Kafka 4.0 but removed in Apache Kafka 4.1.
#
# Version 1 is the initial stable version (KIP-932).
#
# Version 2 introduces ShareAcquireMode and Renew acknowledgements (KIP-1206 and KIP-1222).
# Supported errors for ErrorCode and AcknowledgeErrorCode:
# - GROUP_AUTHORIZATION_FAILED (version 0+)
# - TOPIC_AUTHORIZATION_FAILED (version 0+)
# - SHARE_SESSION_NOT_FOUND (version 0+)
# - INVALID_SHARE_SESSION_EPOCH (version 0+)
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
# - NOT_LEADER_OR_FOLLOWER (version 0+)
# - UNKNOWN_TOPIC_ID (version 0+)
# - INVALID_RECORD_STATE (version 0+) - only for AcknowledgeErrorCode
# - KAFKA_STORAGE_ERROR (version 0+)
# - CORRUPT_MESSAGE (version 0+)
# - INVALID_REQUEST (version 0+)
# - UNKNOWN_SERVER_ERROR (version 0+)
SHARE_FETCH_RESPONSE = Schema(
    "ShareFetchResponse",
    api_key=78,
    versions="1-2",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+", default=None),
        Field("acquisition_lock_timeout_ms", Int32, "1+"),
        Field(
            "responses",
            ArrayOf(
                Structure(
                    "ShareFetchableTopicResponse",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition_index", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+", default=None),
                                Field("acknowledge_error_code", Int16),
                                Field("acknowledge_error_message", String, nullable="0+", default=None),
                                Field("current_leader", LEADER_ID_AND_EPOCH),
                                Field("records", Records, nullable="0"),
                                Field(
                                    "acquired_records",
                                    ArrayOf(
                                        Structure(
                                            "AcquiredRecords",
                                            Field("first_offset", Int64),
                                            Field("last_offset", Int64),
                                            Field("delivery_count", Int16),
                                        )
                                    ),
                                ),
                            )
                        ),
                    ),
                )
            ),
        ),
        Field("node_endpoints", ArrayOf(NODE_ENDPOINT)),
    ),
)
