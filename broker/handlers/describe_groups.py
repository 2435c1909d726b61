"""DescribeGroups (15), versions 0–6: state, members and assignments of groups, each answered on its own.

- Metadata is shown of a stable group alone, as in Kafka.
- A group that is not there, or is a consumer group (KIP-848), is `Dead` without an error; v6+ says GROUP_ID_NOT_FOUND
  (KIP-1043).
- v3+ what the client may do, where it asks and nothing is wrong: everything (KIP-430).
"""

from broker.completion import Completion, all_of
from broker.coordinator.group.exchange import GroupDescription
from broker.coordinator.group.states import GroupState
from broker.dispatch import RequestContext
from broker.handlers.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.describe_groups_request import DescribeGroupsRequest
from protocol.generated.describe_groups_response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse


def handle(context: RequestContext, request: DescribeGroupsRequest) -> Completion[DescribeGroupsResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    described = [_describe(context, group_id, operations) for group_id in request.groups]
    return all_of(described).map(lambda groups: DescribeGroupsResponse(groups=groups))


def _describe(context: RequestContext, group_id: str, operations: int) -> Completion[DescribedGroup]:
    answer: Completion[DescribedGroup] = Completion()

    def on_done(done: Completion[GroupDescription]) -> None:
        error = done.error
        if isinstance(error, KafkaError) and error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            answer.complete(_missing(context, group_id, error.message, operations))
        elif isinstance(error, KafkaError):
            answer.complete(DescribedGroup(error_code=error.code, group_id=group_id))
        elif error is not None:
            answer.fail(error)
        else:
            answer.complete(_described(done.result(), operations))

    context.broker.groups.inventory.describe(group_id).then(on_done)
    return answer


def _missing(context: RequestContext, group_id: str, message: str, operations: int) -> DescribedGroup:
    dead = GroupState.DEAD.value
    if context.api_version < 6:
        return DescribedGroup(group_id=group_id, group_state=dead, authorized_operations=operations)
    return DescribedGroup(
        error_code=ErrorCode.GROUP_ID_NOT_FOUND,
        error_message=message,
        group_id=group_id,
        group_state=dead,
    )


def _described(group: GroupDescription, operations: int) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations,
    )
