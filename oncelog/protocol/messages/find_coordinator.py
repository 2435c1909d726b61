"""FindCoordinator (10): request and response.

KIPs: 98 (transactions), 699 (several keys), 890 (TRANSACTION_ABORTABLE), 932 (share groups).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int8, Int16, Int32, String

# Version 1 adds KeyType.
#
# Version 2 is the same as version 1.
#
# Version 3 is the first flexible version.
#
# Version 4 adds support for batching via CoordinatorKeys (KIP-699)
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 6 adds support for share groups (KIP-932).
# For key type SHARE (2), the coordinator key format is "groupId:topicId:partition".
FIND_COORDINATOR_REQUEST = Schema(
    "FindCoordinatorRequest",
    api_key=10,
    versions="0-6",
    flexible="3+",
    fields=(
        Field("key", String, "0-3"),
        Field("key_type", Int8, "1+", default=0),
        Field("coordinator_keys", ArrayOf(String), "4+"),
    ),
)

# Version 1 adds throttle time and error messages.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Version 3 is the first flexible version.
#
# Version 4 adds support for batching via Coordinators (KIP-699)
#
# Version 5 adds support for new error code TRANSACTION_ABORTABLE (KIP-890).
#
# Version 6 adds support for share groups (KIP-932).
FIND_COORDINATOR_RESPONSE = Schema(
    "FindCoordinatorResponse",
    api_key=10,
    versions="0-6",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16, "0-3"),
        Field("error_message", String, "1-3", nullable="1-3"),
        Field("node_id", Int32, "0-3"),
        Field("host", String, "0-3"),
        Field("port", Int32, "0-3"),
        Field(
            "coordinators",
            ArrayOf(
                Structure(
                    "Coordinator",
                    Field("key", String, "4+"),
                    Field("node_id", Int32, "4+"),
                    Field("host", String, "4+"),
                    Field("port", Int32, "4+"),
                    Field("error_code", Int16, "4+"),
                    Field("error_message", String, "4+", nullable="4+"),
                )
            ),
            "4+",
        ),
    ),
)
