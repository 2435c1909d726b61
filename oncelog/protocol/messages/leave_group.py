"""LeaveGroup (13): request and response.

KIPs: 345 (several members), 800 (reasons).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Int16, Int32, String

# Version 1 and 2 are the same as version 0.
#
# Version 3 defines batch processing scheme with group.instance.id + member.id for identity
#
# Version 4 is the first flexible version.
#
# Version 5 adds the Reason field (KIP-800).
LEAVE_GROUP_REQUEST = Schema(
    "LeaveGroupRequest",
    api_key=13,
    versions="0-5",
    flexible="4+",
    fields=(
        Field("group_id", String),
        Field("member_id", String, "0-2"),
        Field(
            "members",
            ArrayOf(
                Structure(
                    "MemberIdentity",
                    Field("member_id", String, "3+"),
                    Field("group_instance_id", String, "3+", nullable="3+", default=None),
                    Field("reason", String, "5+", nullable="5+", default=None),
                )
            ),
            "3+",
        ),
    ),
)

# Version 1 adds the throttle time.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Starting in version 3, we will make leave group request into batch mode and add group.instance.id.
#
# Version 4 is the first flexible version.
#
# Version 5 is the same as version 4.
LEAVE_GROUP_RESPONSE = Schema(
    "LeaveGroupResponse",
    api_key=13,
    versions="0-5",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16),
        Field(
            "members",
            ArrayOf(
                Structure(
                    "MemberResponse",
                    Field("member_id", String, "3+"),
                    Field("group_instance_id", String, "3+", nullable="3+"),
                    Field("error_code", Int16, "3+"),
                )
            ),
            "3+",
        ),
    ),
)
