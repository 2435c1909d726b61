"""JoinGroup (11), versions 0–9: become a member; the response is sent when the rebalance is complete.

- v0 has no rebalance timeout: the session timeout is used. v4+ a first join without a member id gets MEMBER_ID_REQUIRED
  with the id to use (KIP-394). v5+ static members (KIP-345). v7+ names the protocol type.
- v9+ a static leader that returns to a stable group is asked to skip the assignment (KIP-814); before, the response
  names its old id as the leader, with the same effect.
- The response may take as long as the rebalance: the connection waits, as in Kafka; clients dedicate one to this.
- The reason of v8+ (KIP-800) is only for logs.
"""

from oncelog.broker.coordinator.group.engine.requests import JoinRequest, JoinResult
from oncelog.broker.handlers.shared.topic_filter import topic_filter
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.join_group_request import JoinGroupRequest
from oncelog.protocol.generated.join_group_response import JoinGroupResponse, JoinGroupResponseMember


def handle(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Completion[JoinGroupResponse]:
    version = context.api_version
    join = JoinRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host=f"/{context.peer.host}",
        rebalance_timeout_ms=request.rebalance_timeout_ms if version >= 1 else request.session_timeout_ms,
        session_timeout_ms=request.session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        requires_known_member_id=version >= 4,
        supports_skip_assignment=version >= 9,
        may_describe=topic_filter(context),
    )
    try:
        joined = context.broker.groups.join(join)
    except KafkaError as error:
        return _respond(context, JoinResult(error.code, request.member_id))
    return joined.map(lambda result: _respond(context, result))


def _respond(context: RequestContext, result: JoinResult) -> JoinGroupResponse:
    # Before v7 the protocol name may not be null.
    protocol_name = result.protocol_name
    if protocol_name is None and context.api_version < 7:
        protocol_name = ""
    return JoinGroupResponse(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=protocol_name,
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.group_instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )
