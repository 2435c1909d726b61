"""DeleteShareGroupState (86): request and response.

KIPs: 932 (share groups).
"""

from oncelog.protocol.messages.shared_structures import PARTITION_RESULT
from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int32, String, Uuid

DELETE_SHARE_GROUP_STATE_REQUEST = Schema(
    "DeleteShareGroupStateRequest",
    api_key=86,
    versions="0",
    flexible="0+",
    fields=(
        Field("group_id", String),
        Field(
            "topics",
            ArrayOf(
                Structure(
                    "DeleteStateData",
                    Field("topic_id", Uuid),
                    Field(
                        "partitions",
                        ArrayOf(
                            Structure(
                                "PartitionData",
                                Field("partition", Int32),
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
# - FENCED_STATE_EPOCH (version 0+)
# - INVALID_REQUEST (version 0+)
DELETE_SHARE_GROUP_STATE_RESPONSE = Schema(
    "DeleteShareGroupStateResponse",
    api_key=86,
    versions="0",
    flexible="0+",
    fields=(
        Field(
            "results",
            ArrayOf(
                Structure(
                    "DeleteStateResult",
                    Field("topic_id", Uuid),
                    Field("partitions", ArrayOf(PARTITION_RESULT)),
                )
            ),
        ),
    ),
)
