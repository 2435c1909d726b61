"""StreamsGroupDescribe (89), version 0: streams groups (KIP-1071) with topology, members and tasks, each separately.

- A group that is named several times is returned once, where Kafka repeats it: it may have many members.
- The topology has the partition counts that its internal topics need, once a heartbeat has found all of its topics;
  before that (NotReady) it is as the application described it.
- A member's assignment contains what it owns without what it is about to revoke; the target is what it will own.
- A group of another type is answered with GROUP_ID_NOT_FOUND, as one that does not exist.
- Each group is answered with UNSUPPORTED_VERSION while the finalized feature streams.version is 0, and on a broker
  whose group.coordinator.rebalance.protocols does not name `streams`.
- Authorized operations, if requested and without an error: all of them, unless there is an authorizer (KIP-430).
"""

from collections.abc import Iterable, Mapping

from oncelog.broker.coordinator.group.streams.coordinator import DescribedStreamsGroup
from oncelog.broker.coordinator.group.streams.group import StreamsGroup, StreamsGroupState
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredSubtopology, InternalTopic
from oncelog.broker.coordinator.group.streams.member import StreamsMember
from oncelog.broker.coordinator.group.streams.topology import Subtopology as KnownSubtopology
from oncelog.broker.coordinator.group.streams.topology import TopicInfo as KnownTopicInfo
from oncelog.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from oncelog.broker.handlers.shared.modern_groups import describe_each
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)


def handle(context: RequestContext, request: StreamsGroupDescribeRequest) -> Sliced[StreamsGroupDescribeResponse]:
    operations = GROUP_OPERATIONS if request.include_authorized_operations else NOT_ASKED
    groups = yield from describe_each(
        request.group_ids,
        context.broker.groups.streams,
        lambda group: _description(group, operations),
        DescribedGroup,
    )
    return StreamsGroupDescribeResponse(groups=groups)


def _description(described: DescribedStreamsGroup, operations: int) -> Sliced[DescribedGroup]:
    group = described.group
    members = yield from each(tuple(group.members.values()), lambda member: _member(group, member), 8)
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(described),
        members=members,
        authorized_operations=operations,
    )


def _topology(described: DescribedStreamsGroup) -> Topology | None:
    topology, configured = described.group.topology, described.configured
    if topology is None:
        return None
    is_seen = described.group.state is not StreamsGroupState.NOT_READY
    if configured is not None and configured.is_ready and is_seen:
        return Topology(configured.epoch, [_configured(one) for one in configured.subtopologies.values()])
    return Topology(topology.epoch, [_as_said(one) for one in topology.subtopologies])


def _configured(subtopology: ConfiguredSubtopology) -> Subtopology:
    changelogs, sources = subtopology.state_changelog_topics, subtopology.repartition_source_topics
    return Subtopology(
        subtopology.subtopology_id,
        sorted(subtopology.source_topics),
        sorted(subtopology.repartition_sink_topics),
        [_internal(changelogs[name]) for name in sorted(changelogs)],
        [_internal(sources[name]) for name in sorted(sources)],
    )


def _internal(topic: InternalTopic) -> TopicInfo:
    configs = [KeyValue(key, value) for key, value in topic.config.items()]
    return TopicInfo(topic.name, topic.partition_count, topic.replication_factor, configs)


def _as_said(subtopology: KnownSubtopology) -> Subtopology:
    return Subtopology(
        subtopology.subtopology_id,
        sorted(subtopology.source_topics),
        sorted(subtopology.repartition_sink_topics),
        _topics(subtopology.state_changelog_topics),
        _topics(subtopology.repartition_source_topics),
    )


def _topics(topics: Iterable[KnownTopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            topic.partition_count,
            topic.replication_factor,
            [KeyValue(key, value) for key, value in topic.config],
        )
        for topic in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember) -> Member:
    said, current, target = member.metadata, member.current, group.target_of(member.member_id)
    assigned = current.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=said.instance_id,
        rack_id=said.rack_id,
        client_id=said.client_id,
        client_host=said.client_host,
        topology_epoch=said.topology_epoch,
        process_id=said.process_id,
        user_endpoint=None if said.endpoint is None else Endpoint(said.endpoint.host, said.endpoint.port),
        client_tags=[KeyValue(key, value) for key, value in said.client_tags],
        assignment=Assignment(_tasks(assigned.active), _tasks(assigned.standby), _tasks(assigned.warmup)),
        target_assignment=Assignment(_tasks(target.active), _tasks(target.standby), _tasks(target.warmup)),
    )


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id, sorted(tasks[subtopology_id])) for subtopology_id in sorted(tasks)]
