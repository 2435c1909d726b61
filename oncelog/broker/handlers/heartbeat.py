"""Heartbeat (12), versions 0–4: a member is alive; REBALANCE_IN_PROGRESS asks it to join again. v3+ static members."""

from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.heartbeat_request import HeartbeatRequest
from oncelog.protocol.generated.heartbeat_response import HeartbeatResponse


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    try:
        error = context.broker.groups.heartbeat(
            request.group_id, request.generation_id, request.member_id, request.group_instance_id
        )
    except KafkaError as refused:
        error = refused.code
    return HeartbeatResponse(error_code=error)
