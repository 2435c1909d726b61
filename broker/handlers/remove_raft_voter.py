"""RemoveRaftVoter (81), version 0: the quorum is this node; it does not change (KIP-853).

Kafka's answer where `kraft.version` is 0.
"""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.remove_raft_voter_request import RemoveRaftVoterRequest
from protocol.generated.remove_raft_voter_response import RemoveRaftVoterResponse

_TEXT = "Cluster doesn't support removing voter because the kraft.version feature is 0"


def handle(_: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    del request
    return RemoveRaftVoterResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=_TEXT)
