"""LeaveGroup (13), versions 0–5: members leave; v3+ several at once, each answered on its own (KIP-345).

v3+ a static member may be named by its instance id alone, as tools do. The reason of v5+ (KIP-800) is for logs alone.
"""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.leave_group_request import LeaveGroupRequest
from protocol.generated.leave_group_response import LeaveGroupResponse, MemberResponse


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    groups, group_id = context.broker.groups, request.group_id
    if not group_id:
        return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
    try:
        if context.api_version < 3:
            return LeaveGroupResponse(error_code=groups.leave(group_id, request.member_id, None))
        return LeaveGroupResponse(
            members=[
                MemberResponse(
                    member_id=member.member_id,
                    group_instance_id=member.group_instance_id,
                    error_code=groups.leave(group_id, member.member_id, member.group_instance_id),
                )
                for member in request.members
            ]
        )
    except KafkaError as refused:
        return LeaveGroupResponse(error_code=refused.code)
