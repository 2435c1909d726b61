"""SyncGroup (14): request and response.

KIPs: 345 (static members), 559 (protocol names).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Bytes, Int16, Int32, String

# Versions 1 and 2 are the same as version 0.
#
# Starting from version 3, we add a new field called groupInstanceId to indicate member identity across restarts.
#
# Version 4 is the first flexible version.
#
# Starting from version 5, the client sends the Protocol Type and the Protocol Name
# to the broker (KIP-559). The broker will reject the request if they are inconsistent
# with the Type and Name known by the broker.
SYNC_GROUP_REQUEST = Schema(
    "SyncGroupRequest",
    api_key=14,
    versions="0-5",
    flexible="4+",
    fields=(
        Field("group_id", String),
        Field("generation_id", Int32),
        Field("member_id", String),
        Field("group_instance_id", String, "3+", nullable="3+", default=None),
        Field("protocol_type", String, "5+", nullable="5+", default=None),
        Field("protocol_name", String, "5+", nullable="5+", default=None),
        Field(
            "assignments",
            ArrayOf(
                Structure(
                    "SyncGroupRequestAssignment",
                    Field("member_id", String),
                    Field("assignment", Bytes),
                )
            ),
        ),
    ),
)

# Version 1 adds throttle time.
#
# Starting in version 2, on quota violation, brokers send out responses before throttling.
#
# Starting from version 3, syncGroupRequest supports a new field called groupInstanceId to indicate member identity
# across restarts.
#
# Version 4 is the first flexible version.
#
# Starting from version 5, the broker sends back the Protocol Type and the Protocol Name
# to the client (KIP-559).
SYNC_GROUP_RESPONSE = Schema(
    "SyncGroupResponse",
    api_key=14,
    versions="0-5",
    flexible="4+",
    fields=(
        Field("throttle_time_ms", Int32, "1+"),
        Field("error_code", Int16),
        Field("protocol_type", String, "5+", nullable="5+", default=None),
        Field("protocol_name", String, "5+", nullable="5+", default=None),
        Field("assignment", Bytes),
    ),
)
