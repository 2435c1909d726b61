"""LeaveGroup (13), versions 0–5: members leave; v3+ several at once, each answered on its own (KIP-345)."""

from broker.dispatch import RequestContext
from protocol.errors import KafkaError
from protocol.generated.leave_group_request import LeaveGroupRequest
from protocol.generated.leave_group_response import LeaveGroupResponse, MemberResponse


def handle(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    groups = context.broker.groups
    try:
        if context.api_version < 3:
            error, _ = groups.leave(request.group_id, request.member_id, None)
            return LeaveGroupResponse(error_code=error)
        members = []
        for member in request.members:
            error, member_id = groups.leave(request.group_id, member.member_id, member.group_instance_id)
            members.append(
                MemberResponse(member_id=member_id, group_instance_id=member.group_instance_id, error_code=error)
            )
        return LeaveGroupResponse(members=members)
    except KafkaError as refused:
        return LeaveGroupResponse(error_code=refused.code)
