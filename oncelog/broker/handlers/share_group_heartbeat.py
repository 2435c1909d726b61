"""ShareGroupHeartbeat (76), version 1: a member of a share group joins, reports, gets its assignment, leaves (KIP-932).

- The response is sent once the change is durable; an error has its reason.
- A partition is assigned once its state is made, which the first heartbeat of a group begins: the assignment follows
  with a later one.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from oncelog.broker.coordinator.group.share.heartbeat import HeartbeatRequest
from oncelog.broker.handlers.shared.modern_groups import heartbeat_response
from oncelog.broker.handlers.shared.share_groups import is_member_id, serves_share_groups
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.share_group_heartbeat_response import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

_respond, _refuse = heartbeat_response(ShareGroupHeartbeatResponse, Assignment, TopicPartitions)


def handle(context: RequestContext, request: ShareGroupHeartbeatRequest) -> Completion[ShareGroupHeartbeatResponse]:
    if not serves_share_groups(context):
        return Completion.of(ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    if not is_member_id(request.member_id):
        return Completion.of(ShareGroupHeartbeatResponse(error_code=ErrorCode.INVALID_REQUEST))
    heartbeat = HeartbeatRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        rack_id=request.rack_id,
        topic_names=request.subscribed_topic_names,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
    )
    return context.broker.groups.shares.heartbeat(heartbeat).map(_respond, _refuse)
