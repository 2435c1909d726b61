"""AddRaftVoter (80), versions 0–1: the quorum is this node and does not change (KIP-853)."""

from oncelog.broker.handlers.shared.raft_voters import refusal
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.generated.add_raft_voter_request import AddRaftVoterRequest
from oncelog.protocol.generated.add_raft_voter_response import AddRaftVoterResponse


def handle(context: RequestContext, request: AddRaftVoterRequest) -> AddRaftVoterResponse:
    error, text = refusal(context, "add", request.cluster_id, request.voter_id, request.voter_directory_id)
    return AddRaftVoterResponse(error_code=error, error_message=text)
