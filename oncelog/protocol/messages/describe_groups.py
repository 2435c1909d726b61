"""DescribeGroups (15): request and response.

KIPs: 345 (static members), 430 (authorized operations), 1043 (GROUP_ID_NOT_FOUND).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Bytes, Int16, Int32, String

# Versions 1 and 2 are the same as version 0.
#
# Starting in version 3, authorized operations can be requested.
#
# Starting in version 4, the response will include group.instance.id info for members.
#
# Version 5 is the first flexible version.
#
# Version 6 returns error code GROUP_ID_NOT_FOUND if the group ID is not found (KIP-1043).
DESCRIBE_GROUPS_REQUEST = Schema(
    "DescribeGroupsRequest",
    api_key=15,
    versions="0-6",
    flexible="5+",
    fields=(
        Field("groups", ArrayOf(String)),
        Field("include_authorized_operations", Boolean, "3+"),
    ),
)

# Version 1 added throttle time.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Starting in version 3, brokers can send authorized operations.
#
# Starting in version 4, the response will optionally include group.instance.id info for members.
#
# Version 5 is the first flexible version.
#
# Version 6 returns error code GROUP_ID_NOT_FOUND if the group ID is not found (KIP-1043).
DESCRIBE_GROUPS_RESPONSE = Schema(
    "DescribeGroupsResponse",
    api_key=15,
    versions="0-6",
    flexible="5+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field(
            "groups",
            ArrayOf(
                Structure(
                    "DescribedGroup",
                    Field("error_code", Int16),
                    Field("error_message", String, "6+", nullable="6+", default=None),
                    Field("group_id", String),
                    Field("group_state", String),
                    Field("protocol_type", String),
                    Field("protocol_data", String),
                    Field(
                        "members",
                        ArrayOf(
                            Structure(
                                "DescribedGroupMember",
                                Field("member_id", String),
                                Field("group_instance_id", String, "4+", nullable="4+", default=None),
                                Field("client_id", String),
                                Field("client_host", String),
                                Field("member_metadata", Bytes),
                                Field("member_assignment", Bytes),
                            )
                        ),
                    ),
                    Field("authorized_operations", Int32, "3+", default=-2147483648),
                )
            ),
        ),
    ),
)
