"""ShareGroupDescribe (77), version 1: share groups with members and assignments, each separately (KIP-932).

- A group that is named several times is returned once, where Kafka repeats it: it may have many members. A very large
  group may change while it is described: each member is as it was in one turn.
- GROUP_ID_NOT_FOUND also for groups of other types; UNSUPPORTED_VERSION while the finalized feature share.version is 0.
- Authorized operations, if requested and without an error: all of them, unless there is an authorizer (KIP-430).
"""

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions as Partitions
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import ShareMember
from oncelog.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from oncelog.broker.handlers.shared.share_groups import serves_share_groups
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)

_MESSAGE_CHARACTERS = 4_000


def handle(context: RequestContext, request: ShareGroupDescribeRequest) -> Sliced[ShareGroupDescribeResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = []
    for group_id in dict.fromkeys(request.group_ids):
        yield 1
        if not serves_share_groups(context):
            groups.append(DescribedGroup(error_code=ErrorCode.UNSUPPORTED_VERSION, group_id=group_id))
            continue
        if not group_id:
            groups.append(DescribedGroup(error_code=ErrorCode.INVALID_GROUP_ID, group_id=group_id))
            continue
        described = context.broker.groups.shares.describe(group_id)
        yield described
        if isinstance(described.error, KafkaError):
            message = described.error.message[:_MESSAGE_CHARACTERS] or None
            groups.append(DescribedGroup(error_code=described.error.code, error_message=message, group_id=group_id))
        else:
            groups.append((yield from _description(context, described.result(), operations)))
    return ShareGroupDescribeResponse(groups=groups)


def _description(context: RequestContext, group: ShareGroup, operations: int) -> Sliced[DescribedGroup]:
    topics = context.broker.topics
    group_epoch, assignment_epoch, state = group.epoch, group.assignment_epoch, group.state.value
    members = yield from each(tuple(group.members.values()), lambda member: _member(topics, member), 8)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=state,
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=context.broker.groups.shares.assignor,
        members=members,
        authorized_operations=operations,
    )


def _member(topics: Topics, member: ShareMember) -> Member:
    said = member.metadata
    return Member(
        member_id=member.member_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=said.topic_names,
        assignment=_assignment(topics, member.current.assigned),
    )


def _assignment(topics: Topics, partitions: Partitions) -> Assignment:
    """Return the assignment, with only the topics that still exist."""
    found = [(topics.by_id(topic_id), sorted(numbers)) for topic_id, numbers in partitions.items()]
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic.topic_id, topic_name=topic.name, partitions=numbers)
            for topic, numbers in found
            if topic is not None
        ]
    )
