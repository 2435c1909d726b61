"""LeaveGroup (13), versions 0–5: members leave; v3+ several at once, each with its own result (KIP-345).

v3+ a static member may be named by its instance id alone, as tools do. The reason of v5+ (KIP-800) is only for logs.
"""

from collections.abc import Sequence

from oncelog.broker.coordinator.group.consumer.heartbeat import LeavingMember
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.leave_group_request import LeaveGroupRequest
from oncelog.protocol.generated.leave_group_response import LeaveGroupResponse, MemberResponse


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse | Completion[LeaveGroupResponse]:
    if not request.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    if context.api_version < 3:
        leaving = [LeavingMember(request.member_id, None)]
    else:
        leaving = [LeavingMember(member.member_id, member.group_instance_id) for member in request.members]
    left = context.broker.groups.leave(request.group_id, leaving)
    return left.map(
        lambda errors: _respond(context, leaving, errors), lambda error: LeaveGroupResponse(error_code=error.code)
    )


def _respond(
    context: RequestContext, leaving: Sequence[LeavingMember], errors: Sequence[ErrorCode]
) -> LeaveGroupResponse:
    if context.api_version < 3:
        return LeaveGroupResponse(error_code=errors[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(member_id=member.member_id, group_instance_id=member.instance_id, error_code=error)
            for member, error in zip(leaving, errors, strict=True)
        ]
    )
