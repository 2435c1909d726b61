"""InitializeShareGroupState (83): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import PARTITION_RESULT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, Int64, String, Uuid

INITIALIZE_SHARE_GROUP_STATE_REQUEST = Schema(
    "InitializeShareGroupStateRequest",
    api_key=83,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "InitializeStateData",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition", Int32),
                                Field("state_epoch", Int32),
                                Field("start_offset", Int64),
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
# - FENCED_STATE_EPOCH (version 0+)
# - INVALID_REQUEST (version 0+)
INITIALIZE_SHARE_GROUP_STATE_RESPONSE = Schema(
    "InitializeShareGroupStateResponse",
    api_key=83,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "results",
            ArrayOf(
                Structure(
                    "InitializeStateResult",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(PARTITION_RESULT)),
                )
            ),
        ),
    ),
)
