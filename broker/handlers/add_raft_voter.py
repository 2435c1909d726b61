"""AddRaftVoter (80), versions 0–1: the quorum is this node; it does not change (KIP-853).

Kafka's answer where `kraft.version` is 0.
"""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.add_raft_voter_request import AddRaftVoterRequest
from protocol.generated.add_raft_voter_response import AddRaftVoterResponse

_TEXT = "Cluster doesn't support adding voter because the kraft.version feature is 0"


def handle(_: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    del request
    return AddRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_TEXT)
