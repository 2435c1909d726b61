"""ConsumerGroupDescribe (69), versions 0–1: consumer groups (KIP-848) with members and assignments, each separately.

- A group that is named several times is returned once, where Kafka repeats it: it may have many members. A very large
  group may change while it is described: each member is as it was in one turn.
- A member's assignment contains what it owns and what it is about to revoke; the target is what it will own.
- v1+ includes a member's protocol: 0 classic, 1 consumer (KIP-1099).
- A classic group is answered with GROUP_ID_NOT_FOUND, as one that does not exist.
- Each group is answered with UNSUPPORTED_VERSION while the finalized feature group.version is 0, and on a broker whose
  group.coordinator.rebalance.protocols does not name `consumer`.
- Authorized operations, if requested and without an error: all of them, unless there is an authorizer (KIP-430).
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from oncelog.broker.handlers.shared.modern_groups import describe_each, existing_topics
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.consumer_group_describe_response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC, _CONSUMER = 0, 1


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> Sliced[ConsumerGroupDescribeResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = yield from describe_each(
        request.group_ids,
        context.broker.groups.consumers,
        lambda group: _description(context, group, operations),
        DescribedGroup,
    )
    return ConsumerGroupDescribeResponse(groups=groups)


def _description(context: RequestContext, group: ConsumerGroup, operations: int) -> Sliced[DescribedGroup]:
    topics, consumers = context.broker.topics, context.broker.groups.consumers
    group_epoch, assignment_epoch, state = group.epoch, group.assignment_epoch, group.state.value
    members = yield from each(tuple(group.members.values()), lambda member: _member(topics, group, member), 8)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=state,
        group_epoch=group_epoch,
        assignment_epoch=assignment_epoch,
        assignor_name=consumers.assignor_of(group),
        members=members,
        authorized_operations=operations,
    )


def _member(topics: Topics, group: ConsumerGroup, member: ConsumerMember) -> Member:
    said, current = member.metadata, member.current
    return Member(
        member_id=member.member_id,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        member_epoch=member.epoch,
        client_id=said.client_id,
        client_host=said.client_host,
        subscribed_topic_names=said.topic_names,
        subscribed_topic_regex=said.topic_regex,
        assignment=_assignment(topics, current.assigned, current.pending_revocation),
        target_assignment=_assignment(topics, group.target_of(member.member_id)),
        member_type=_CLASSIC if member.is_classic else _CONSUMER,
    )


def _assignment(topics: Topics, *held: Mapping[UUID, Iterable[int]]) -> Assignment:
    merged: dict[UUID, set[int]] = {}
    for partitions in held:
        for topic_id, numbers in partitions.items():
            merged.setdefault(topic_id, set()).update(numbers)
    return Assignment(existing_topics(topics, merged, TopicPartitions))
