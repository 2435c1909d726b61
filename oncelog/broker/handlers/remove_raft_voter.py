"""RemoveRaftVoter (81), version 0: the quorum is this node and does not change (KIP-853)."""

from oncelog.broker.handlers.shared.raft_voters import refusal
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.generated.remove_raft_voter_request import RemoveRaftVoterRequest
from oncelog.protocol.generated.remove_raft_voter_response import RemoveRaftVoterResponse


def handle(context: RequestContext, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    error, text = refusal(context, "remove", request.cluster_id, request.voter_id, request.voter_directory_id)
    return RemoveRaftVoterResponse(error_code=error, error_message=text)
