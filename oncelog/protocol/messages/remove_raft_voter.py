"""RemoveRaftVoter (81): request and response.

KIPs: 853 (dynamic quorums).
"""

from oncelog.protocol.schema import Field, Schema
from oncelog.protocol.types import Int16, Int32, String, Uuid

REMOVE_RAFT_VOTER_REQUEST = Schema(
    "RemoveRaftVoterRequest",
    api_key=81,
    versions="0",
    flexible="0+",
    fields=(
        Field("cluster_id", String, nullable="0+"),
        Field("voter_id", Int32),
        Field("voter_directory_id", Uuid),
    ),
)

REMOVE_RAFT_VOTER_RESPONSE = Schema(
    "RemoveRaftVoterResponse",
    api_key=81,
    versions="0",
    flexible="0+",
    fields=(
        Field("throttle_time_ms", Int32),
        Field("error_code", Int16),
        Field("error_message", String, nullable="0+"),
    ),
)
