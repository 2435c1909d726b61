"""WriteShareGroupState (85): request and response.

KIPs: 932 (share groups), 1226 (lag).
"""

from oncelog.protocol.messages.shared_structures import PARTITION_RESULT, STATE_BATCH
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, Int64, String, Uuid

# Version 0 is the initial version (KIP-932).
#
# Version 1 introduces DeliveryCompleteCount (KIP-1226).
WRITE_SHARE_GROUP_STATE_REQUEST = Schema(
    "WriteShareGroupStateRequest",
    api_key=85,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "WriteStateData",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition", Int32),
                                Field("state_epoch", Int32),
                                Field("leader_epoch", Int32),
                                Field("start_offset", Int64),
                                Field("delivery_complete_count", Int32, "1+", default=-1),
                                Field("state_batches", ArrayOf(STATE_BATCH)),
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
# Version 1 introduces DeliveryCompleteCount in the request (KIP-1226).
# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
# - FENCED_LEADER_EPOCH (version 0+)
# - FENCED_STATE_EPOCH (version 0+)
# - INVALID_REQUEST (version 0+)
WRITE_SHARE_GROUP_STATE_RESPONSE = Schema(
    "WriteShareGroupStateResponse",
    api_key=85,
    versions="0-1",
    flexible="0+",
    fields=(
        Field(
            "results",
            ArrayOf(
                Structure(
                    "WriteStateResult",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(PARTITION_RESULT)),
                )
            ),
        ),
    ),
)
