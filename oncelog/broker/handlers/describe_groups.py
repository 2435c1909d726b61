"""DescribeGroups (15), versions 0–6: state, members and assignments of groups, each with its own result.

- A group that is named several times is returned once, where Kafka repeats it: it may have many members. Each is as it
  was in one turn.
- Metadata is returned for a stable group only, as in Kafka.
- A missing group, or a consumer group (KIP-848), is `Dead` without an error; v6+ GROUP_ID_NOT_FOUND (KIP-1043).
- v3+ authorized operations, if requested and without an error: all of them, unless there is an authorizer (KIP-430).
"""

from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.engine.requests import DescribedMember, GroupDescription
from oncelog.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.describe_groups_response import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsResponse,
)


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Sliced[DescribeGroupsResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    describe = context.broker.groups.administration.describe
    asked = yield from each(dict.fromkeys(request.groups), lambda group_id: (group_id, describe(group_id)))
    groups = []
    for group_id, described in asked:
        yield described
        error = described.error
        if isinstance(error, KafkaError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            groups.append(_missing_group(context, group_id, error.message, operations))
        elif isinstance(error, KafkaError):
            groups.append(DescribedGroup(error_code=error.code, group_id=group_id))
        else:
            groups.append((yield from _description(described.result(), operations)))
        yield 1
    return DescribeGroupsResponse(groups=groups)


def _missing_group(context: RequestContext, group_id: str, message: str, operations: int) -> DescribedGroup:
    dead = GroupState.DEAD.value
    if context.api_version < 6:
        return DescribedGroup(group_id=group_id, group_state=dead, authorized_operations=operations)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message,
        group_id=group_id,
        group_state=dead,
    )


def _description(group: GroupDescription, operations: int) -> Sliced[DescribedGroup]:
    members = yield from each(group.members, _member)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=members,
        authorized_operations=operations,
    )


def _member(member: DescribedMember) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata,
        member_assignment=member.assignment,
    )
