"""ListGroups (16): request and response.

KIPs: 518 (by state), 848 (by type).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

# Version 1 and 2 are the same as version 0.
#
# Version 3 is the first flexible version.
#
# Version 4 adds the StatesFilter field (KIP-518).
#
# Version 5 adds the TypesFilter field (KIP-848).
LIST_GROUPS_REQUEST = Schema(
    "ListGroupsRequest",
    api_key=16,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("states_filter", ArrayOf(String), "4+"),
        Field("types_filter", ArrayOf(String), "5+"),
    ),
)

# Version 1 adds the throttle time.
#
# Starting in version 2, on quota violation, brokers send out
# responses before throttling.
#
# Version 3 is the first flexible version.
#
# Version 4 adds the GroupState field (KIP-518).
#
# Version 5 adds the GroupType field (KIP-848).
LIST_GROUPS_RESPONSE = Schema(
    "ListGroupsResponse",
    api_key=16,
    versions="0-5",
    flexible="3+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "ListedGroup",
                    Field("group_id", String),
                    Field("protocol_type", String),
                    Field("group_state", String, "4+"),
                    Field("group_type", String, "5+"),
                )
            ),
        ),
    ),
)
