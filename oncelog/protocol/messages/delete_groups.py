"""DeleteGroups (42): request and response.

KIPs: 229 (groups deleted by API).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

# Version 1 is the same as version 0.
#
# Version 2 is the first flexible version.
DELETE_GROUPS_REQUEST = Schema(
    "DeleteGroupsRequest",
    api_key=42,
    versions="0-2",
    flexible="2+",
    fields=(Field("groups_names", ArrayOf(String)),),
)

# Starting in version 1, on quota violation, brokers send out responses before throttling.
#
# Version 2 is the first flexible version.
DELETE_GROUPS_RESPONSE = Schema(
    "DeleteGroupsResponse",
    api_key=42,
    versions="0-2",
    flexible="2+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field(
            "results",
            ArrayOf(
                Structure(
                    "DeletableGroupResult",
                    Field("group_id", String),
                    Field("error_code", Int16),
                )
            ),
        ),
    ),
)
