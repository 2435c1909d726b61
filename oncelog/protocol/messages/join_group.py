"""JoinGroup (11): request and response.

KIPs: 62 (rebalance timeout), 345 (static members), 394 (member ids first), 559 (protocol names), 800 (reasons), 814
(skipped assignment).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Bytes, Int16, Int32, String

# Version 1 adds RebalanceTimeoutMs. Version 2 and 3 are the same as version 1.
#
# Starting from version 4, the client needs to issue a second request to join group
#
# Starting from version 5, we add a new field called groupInstanceId to indicate member identity across restarts.
# with assigned id.
#
# Version 6 is the first flexible version.
#
# Version 7 is the same as version 6.
#
# Version 8 adds the Reason field (KIP-800).
#
# Version 9 is the same as version 8.
JOIN_GROUP_REQUEST = Schema(
    "JoinGroupRequest",
    api_key=11,
    versions="0-9",
    flexible="6+",
    fields=(
        Field("group_id", String),
        Field("session_timeout_ms", Int32),
        Field("rebalance_timeout_ms", Int32, "1+", default=-1),
        Field("member_id", String),
        Field("group_instance_id", String, "5+", nullable="5+", default=None),
        Field("protocol_type", String),
        Field(
            "protocols",
            ArrayOf(
                Structure(
                    "JoinGroupRequestProtocol",
                    Field("name", String),
                    Field("metadata", Bytes),
                )
            ),
        ),
        Field("reason", String, "8+", nullable="8+", default=None),
    ),
)

# Version 1 is the same as version 0.
#
# Version 2 adds throttle time.
#
# Starting in version 3, on quota violation, brokers send out responses before throttling.
#
# Starting in version 4, the client needs to issue a second request to join group
# with assigned id.
#
# Version 5 is bumped to apply group.instance.id to identify member across restarts.
#
# Version 6 is the first flexible version.
#
# Starting from version 7, the broker sends back the Protocol Type to the client (KIP-559).
#
# Version 8 is the same as version 7.
#
# Version 9 adds the SkipAssignment field.
JOIN_GROUP_RESPONSE = Schema(
    "JoinGroupResponse",
    api_key=11,
    versions="0-9",
    flexible="6+",
    fields=(
        Field("throttle_time_ms", Int32, "2+"),
        Field("error_code", Int16),
        Field("generation_id", Int32, default=-1),
        Field("protocol_type", String, "7+", nullable="7+", default=None),
        Field("protocol_name", String, nullable="7+"),
        Field("leader", String),
        Field("skip_assignment", Boolean, "9+", default=False),
        Field("member_id", String),
        Field(
            "members",
            ArrayOf(
                Structure(
                    "JoinGroupResponseMember",
                    Field("member_id", String),
                    Field("group_instance_id", String, "5+", nullable="5+", default=None),
                    Field("metadata", Bytes),
                )
            ),
        ),
    ),
)
