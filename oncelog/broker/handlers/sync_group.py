"""SyncGroup (14), versions 0–5: the leader sends the assignment, every member gets its part once that is durable.

v3+ static members; v5+ must name protocol type and protocol, INCONSISTENT_GROUP_PROTOCOL if they differ from the
group's (KIP-559).
"""

from oncelog.broker.coordinator.group.engine.requests import SyncResult
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.sync_group_request import SyncGroupRequest
from oncelog.protocol.generated.sync_group_response import SyncGroupResponse


def handle(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Completion[SyncGroupResponse]:
    if context.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        synced = context.broker.groups.sync(
            request.group_id,
            request.generation_id,
            request.member_id,
            request.group_instance_id,
            request.protocol_type,
            request.protocol_name,
            [(assignment.member_id, assignment.assignment) for assignment in request.assignments],
        )
    except KafkaError as error:
        return SyncGroupResponse(error_code=error.code)
    return synced.map(_respond)


def _respond(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )
