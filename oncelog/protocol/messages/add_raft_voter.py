"""AddRaftVoter (80): request and response.

KIPs: 853 (dynamic quorums).
"""

from oncelog.protocol.schema import ArrayOf, Field, Schema, Structure
from oncelog.protocol.types import Boolean, Int16, Int32, String, UInt16, Uuid

# Version 1 adds the AckWhenCommitted field.
ADD_RAFT_VOTER_REQUEST = Schema(
    "AddRaftVoterRequest",
    api_key=80,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("cluster_id", String, nullable="0+"),
        Field("timeout_ms", Int32),
        Field("voter_id", Int32),
        Field("voter_directory_id", Uuid),
        Field(
            "listeners",
            ArrayOf(
                Structure(
                    "Listener",
                    Field("name", String),
                    Field("host", String),
                    Field("port", UInt16),
                )
            ),
        ),
        Field("ack_when_committed", Boolean, "1+", default=True),
    ),
)

# Version 1 is the same as version 0
ADD_RAFT_VOTER_RESPONSE = Schema(
    "AddRaftVoterResponse",
    api_key=80,
    versions="0-1",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
    ),
)
