"""ShareGroupDescribe (77), version 1: share groups with members and assignments, each separately (KIP-932).

- A group that is named several times is returned once, where Kafka repeats it: it may have many members. A very large
  group may change while it is described: each member is as it was in one turn.
- GROUP_ID_NOT_FOUND also for groups of other types; UNSUPPORTED_VERSION while the finalized feature share.version is 0.
- Authorized operations, if requested and without an error: all of them, unless there is an authorizer (KIP-430).
"""

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import ShareMember
from oncelog.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from oncelog.broker.handlers.shared.modern_groups import describe_each, existing_topics
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeResponse,
    TopicPartitions,
)


def handle(context: RequestContext, request: ShareGroupDescribeRequest) -> Sliced[ShareGroupDescribeResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = yield from describe_each(
        request.group_ids,
        context.broker.groups.shares,
        lambda group: _description(context, group, operations),
        DescribedGroup,
    )
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
        assignment=Assignment(existing_topics(topics, member.current.assigned, TopicPartitions)),
    )
