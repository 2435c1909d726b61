"""ReadShareGroupState (84): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import STATE_BATCH
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, Int64, String, Uuid

READ_SHARE_GROUP_STATE_REQUEST = Schema(
    "ReadShareGroupStateRequest",
    api_key=84,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "ReadStateData",
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

# - NOT_COORDINATOR (version 0+)
# - COORDINATOR_NOT_AVAILABLE (version 0+)
# - COORDINATOR_LOAD_IN_PROGRESS (version 0+)
# - GROUP_ID_NOT_FOUND (version 0+)
# - UNKNOWN_TOPIC_OR_PARTITION (version 0+)
# - FENCED_LEADER_EPOCH (version 0+)
# - INVALID_REQUEST (version 0+)
READ_SHARE_GROUP_STATE_RESPONSE = Schema(
    "ReadShareGroupStateResponse",
    api_key=84,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "results",
            ArrayOf(
                Structure(
                    "ReadStateResult",
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
                                Field("start_offset", Int64),
                                Field("state_batches", ArrayOf(STATE_BATCH)),
                            )
                        ),
                    ),
                )
            ),
        ),
    ),
)
