"""The requests about streams groups: describe them, and who reads which partition.

Owns: the request, and its errors as exceptions. Does not own: the offsets of such a group and its deletion, which are
those of any group (`groups`), the public names (`client`, which imports this at the first use). KIP: 1071.
"""

from collections.abc import Sequence

from oncelog.client.admin.calls import ask_coordinator
from oncelog.client.admin.descriptions import MemberDescription
from oncelog.client.admin.streams_descriptions import (
    StreamsGroupDescription,
    StreamsInternalTopic,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTask,
    StreamsTasks,
)
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import streams_group_describe_request, streams_group_describe_response
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
)

_DESCRIBE = api_of(streams_group_describe_request, streams_group_describe_response, 0, 0)


async def describe_group(cluster: Cluster, group_id: str, deadline: Deadline) -> StreamsGroupDescription:
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DESCRIBE,
        StreamsGroupDescribeRequest(group_ids=(group_id,)),
        deadline,
        lambda each: [(each.groups[0].error_code, _about(group_id, each.groups[0]))],
    )
    group = response.groups[0]
    topology = group.topology
    subtopologies: Sequence[Subtopology] = () if topology is None else topology.subtopologies or ()
    return StreamsGroupDescription(
        group_id,
        group.group_state,
        group.group_epoch,
        group.assignment_epoch,
        -1 if topology is None else topology.epoch,
        cluster.known_coordinator(CoordinatorKind.GROUP, group_id),
        tuple(map(_subtopology, subtopologies)),
        tuple(map(_member, group.members)),
    )


def _about(group_id: str, group: DescribedGroup) -> str:
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # a group of another type is none here
        return f"streams group {group_id!r} does not exist"
    return f"streams group {group_id!r}: {group.error_message or ''}"


def _subtopology(subtopology: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        subtopology.subtopology_id,
        tuple(sorted(subtopology.source_topics)),
        tuple(sorted(subtopology.repartition_sink_topics)),
        _internal_topics(subtopology.repartition_source_topics),
        _internal_topics(subtopology.state_changelog_topics),
    )


def _internal_topics(topics: Sequence[TopicInfo]) -> tuple[StreamsInternalTopic, ...]:
    found = [
        StreamsInternalTopic(
            each.name,
            each.partitions,
            each.replication_factor,
            {entry.key: entry.value for entry in each.topic_configs},
        )
        for each in topics
    ]
    return tuple(sorted(found, key=lambda each: each.name))


def _member(member: Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.instance_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.process_id,
        member.member_epoch,
        member.topology_epoch,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {each.key: each.value for each in member.client_tags},
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.is_classic,
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    return StreamsTasks(
        _task_ids(assignment.active_tasks), _task_ids(assignment.standby_tasks), _task_ids(assignment.warmup_tasks)
    )


def _task_ids(tasks: Sequence[TaskIds]) -> tuple[StreamsTask, ...]:
    return tuple(sorted(StreamsTask(each.subtopology_id, number) for each in tasks for number in each.partitions))


async def readers(cluster: Cluster, group_id: str, deadline: Deadline) -> tuple[MemberDescription, ...]:
    """Return the members of a streams group with the partitions that their active tasks read."""
    group = await describe_group(cluster, group_id, deadline)
    topics = {each.subtopology_id: each.read_topics for each in group.subtopologies}
    return tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.host,
            tuple(
                TopicPartition(topic, task.partition)
                for task in each.tasks.active
                for topic in topics.get(task.subtopology_id, ())
            ),
        )
        for each in group.members
    )
