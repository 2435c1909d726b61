"""ReadShareGroupStateSummary (87): request and response.

KIPs: 932 (share groups), 1226 (lag).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, Uuid

# Version 0 is the initial version (KIP-932).
#
# Version 1 introduces DeliveryCompleteCount in the response (KIP-1226).
READ_SHARE_GROUP_STATE_SUMMARY_REQUEST = Schema(
    "ReadShareGroupStateSummaryRequest",
    api_key=87,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ReadStateSummaryData",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition", Int32),
                                Field("leader_epoch", Int32),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)

# Version 0 is the initial version (KIP-932).
#
# Version 1 introduces DeliveryCompleteCount (KIP-1226).
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
# - FENCED_LEADER_EPOCH (version 0+)
# - INVALID_REQUEST (version 0+)
READ_SHARE_GROUP_STATE_SUMMARY_RESPONSE = Schema(
    "ReadShareGroupStateSummaryResponse",
    api_key=87,
    versions="0-1",
    flexible="0+",
    fields=(
        Field(
            "results",
            ArrayOf(
                Structure(
                    "ReadStateSummaryResult",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionResult",
                                Field("partition", Int32),
                                Field("error_code", Int16),
                                Field("error_message", String, nullable="0+", default=None),
                                Field("state_epoch", Int32),
                                Field("leader_epoch", Int32),
                                Field("start_offset", Int64),
                                Field("delivery_complete_count", Int32, "1+", default=-1),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
