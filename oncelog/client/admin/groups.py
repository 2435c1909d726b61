"""The requests about groups: list and delete those of all types; describe consumer groups of both protocols; their lag
and their committed offsets, which streams groups have as well.

Owns: the requests, and their errors as exceptions. Does not own: describing the other types and the offsets of share
groups (`share_groups`, `streams_groups`), reading offsets (`wire.offsets`), the public names (`client`, which imports
this at the first use: few programs need it). Each request goes to the group's coordinator, ListGroups to every node.
KIPs: 222, 229, 496, 518, 848, 1043, 1071.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from oncelog.client.admin.calls import Code, ask_coordinator, ask_nodes, raise_for_group, require_topics
from oncelog.client.admin.descriptions import GroupDescription, ListedGroup, MemberDescription, PartitionLag
from oncelog.client.groups.subscriptions import decode_assignment
from oncelog.client.values.arguments import known_names
from oncelog.client.values.errors import KafkaError, raise_for
from oncelog.client.values.records import OffsetAndMetadata, TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.client.wire.group_apis import OFFSET_COMMIT
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    consumer_group_describe_request,
    consumer_group_describe_response,
    delete_groups_request,
    delete_groups_response,
    describe_groups_request,
    describe_groups_response,
    list_groups_request,
    list_groups_response,
    offset_delete_request,
    offset_delete_response,
)
from oncelog.protocol.generated.consumer_group_describe_request import ConsumerGroupDescribeRequest
from oncelog.protocol.generated.consumer_group_describe_response import Member
from oncelog.protocol.generated.delete_groups_request import DeleteGroupsRequest
from oncelog.protocol.generated.describe_groups_request import DescribeGroupsRequest
from oncelog.protocol.generated.describe_groups_response import DescribedGroup, DescribedGroupMember
from oncelog.protocol.generated.list_groups_request import ListGroupsRequest
from oncelog.protocol.generated.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.protocol.generated.offset_commit_response import OffsetCommitResponse
from oncelog.protocol.generated.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.protocol.generated.offset_delete_response import OffsetDeleteResponse
from oncelog.protocol.group_states import GROUP_STATES, GROUP_TYPES

_LIST = api_of(list_groups_request, list_groups_response, 0, 5)
_DESCRIBE = api_of(describe_groups_request, describe_groups_response, 0, 6)
_DESCRIBE_CONSUMER = api_of(consumer_group_describe_request, consumer_group_describe_response, 0, 1)
_DELETE = api_of(delete_groups_request, delete_groups_response, 0, 2)
_DELETE_OFFSETS = api_of(offset_delete_request, offset_delete_response, 0, 0)
_NOT_A_CONSUMER_GROUP = frozenset((ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION))


async def list_groups(
    cluster: Cluster, states: Sequence[str], types: Sequence[str], deadline: Deadline
) -> list[ListedGroup]:
    request = ListGroupsRequest(
        states_filter=known_names("states", states, GROUP_STATES), types_filter=known_names("types", types, GROUP_TYPES)
    )
    found = [
        ListedGroup(each.group_id, node_id, each.protocol_type, each.group_state, each.group_type)
        for node_id, response in await ask_nodes(cluster, _LIST, request, deadline, lambda each: each.error_code)
        for each in response.groups
    ]
    return sorted(found, key=lambda each: each.group_id)


async def describe_group(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupDescription:
    """Describe a group, first as a consumer group (KIP-848), then as a classic one: a group id is one of the two."""
    return await _describe_consumer_group(cluster, group_id, deadline) or await _describe_classic_group(
        cluster, group_id, deadline
    )


async def _describe_consumer_group(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupDescription | None:
    try:
        response = await cluster.call_coordinator(
            CoordinatorKind.GROUP,
            group_id,
            _DESCRIBE_CONSUMER,
            ConsumerGroupDescribeRequest(group_ids=(group_id,)),
            deadline,
            lambda each: each.groups[0].error_code,
        )
    except KafkaError as error:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:  # before Kafka 3.7 there was one kind of group
            return None
        raise
    group = response.groups[0]
    if group.error_code in _NOT_A_CONSUMER_GROUP:
        return None
    raise_for(group.error_code, f"group {group_id!r}: {group.error_message or ''}")
    coordinator_id = cluster.known_coordinator(CoordinatorKind.GROUP, group_id)
    return GroupDescription(
        group_id,
        "consumer",
        group.group_state,
        "consumer",
        group.assignor_name,
        group.group_epoch,
        coordinator_id,
        tuple(map(_consumer_member, group.members)),
    )


def _consumer_member(member: Member) -> MemberDescription:
    owned = [
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    ]
    return MemberDescription(member.member_id, member.instance_id, member.client_id, member.client_host, tuple(owned))


async def _describe_classic_group(cluster: Cluster, group_id: str, deadline: Deadline) -> GroupDescription:
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DESCRIBE,
        DescribeGroupsRequest(groups=(group_id,)),
        deadline,
        lambda each: [(_code_of(each.groups[0]), f"group {group_id!r} does not exist")],
    )
    group = response.groups[0]
    is_consumers = group.protocol_type == "consumer"
    members = [_classic_member(member, is_consumers) for member in group.members]
    coordinator_id = cluster.known_coordinator(CoordinatorKind.GROUP, group_id)
    return GroupDescription(
        group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        -1,
        coordinator_id,
        tuple(members),
    )


def _code_of(group: DescribedGroup) -> int:
    """Return the error code of a described group. Before version 6 (KIP-1043) an unknown group is dead, without an
    error."""
    return group.error_code or (ErrorCode.GROUP_ID_NOT_FOUND if group.group_state == "Dead" else 0)


def _classic_member(member: DescribedGroupMember, is_consumers: bool) -> MemberDescription:
    """Return a member of a classic group; the assignment of another protocol, such as Kafka Connect's, is not
    partitions."""
    partitions = decode_assignment(bytes(member.member_assignment)) if is_consumers else []
    return MemberDescription(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(partitions)
    )


async def list_lag(cluster: Cluster, group_id: str, deadline: Deadline) -> list[PartitionLag]:
    """Return the lag of each partition that the group has an offset of or reads now, sorted."""
    from oncelog.client.wire import offsets  # which the other requests do not need

    members = await _readers(cluster, group_id, deadline)
    committed = await offsets.fetch_committed(cluster, group_id, None, deadline, require_stable=False)
    places = {*committed, *(place for member in members for place in member.partitions)}
    await cluster.refresh({place.topic for place in places}, deadline)
    # The offsets of a deleted topic stay for a while: there is nothing to be behind of. And of the sources of a streams
    # task, one may have fewer partitions than the others.
    topics = cluster.metadata.topics
    there = sorted(
        place for place in places if place.topic in topics and place.partition < topics[place.topic].partition_count
    )
    latest = dict.fromkeys(there, offsets.LATEST)
    starts = await offsets.list_offsets(cluster, dict.fromkeys(there, offsets.EARLIEST), "read_uncommitted", deadline)
    ends = await offsets.list_offsets(cluster, latest, "read_uncommitted", deadline)
    stable = await offsets.list_offsets(cluster, latest, "read_committed", deadline)
    found = []
    for place in there:
        offset = committed[place].offset if place in committed else None
        # Without a committed offset it would read from the start.
        position = starts[place].offset if offset is None else offset
        end = ends[place].offset
        reader = next((each for each in members if place in each.partitions), None)
        found.append(PartitionLag(place, offset, stable[place].offset, end, max(0, end - position), reader))
    return found


async def _readers(cluster: Cluster, group_id: str, deadline: Deadline) -> tuple[MemberDescription, ...]:
    """Return the members of a group of any type that commits offsets."""
    try:
        return (await describe_group(cluster, group_id, deadline)).members
    except KafkaError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        from oncelog.client.admin import streams_groups

        try:
            return await streams_groups.readers(cluster, group_id, deadline)
        except KafkaError as other:
            raise (error if other.code in _NOT_A_CONSUMER_GROUP else other) from None


async def delete_group(cluster: Cluster, group_id: str, deadline: Deadline) -> None:
    await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DELETE,
        DeleteGroupsRequest(groups_names=(group_id,)),
        deadline,
        lambda each: [(each.results[0].error_code, f"group {group_id!r}")],
        raise_for_group,
    )


async def alter_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], deadline: Deadline
) -> None:
    """Commit without a member id, which the coordinator accepts while the group has no members."""
    await require_topics(cluster, {topic for topic, _ in offsets}, deadline)
    for place in offsets:
        cluster.metadata.checked_leader(place)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(partition, offset.offset, offset.leader_epoch, offset.metadata)
        )
    named = [OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()]
    await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        OFFSET_COMMIT,
        OffsetCommitRequest(group_id=group_id, topics=named),
        deadline,
        lambda response: _codes(group_id, response),
        raise_for_group,
    )


async def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], deadline: Deadline
) -> None:
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition))
    named = [OffsetDeleteRequestTopic(name, each) for name, each in topics.items()]
    await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DELETE_OFFSETS,
        OffsetDeleteRequest(group_id=group_id, topics=named),
        deadline,
        lambda each: [(each.error_code, f"group {group_id!r}"), *_codes(group_id, each)],
        raise_for_group,
    )


def _codes(group_id: str, response: OffsetCommitResponse | OffsetDeleteResponse) -> Iterator[Code]:
    for topic in response.topics:
        for each in topic.partitions:
            yield each.error_code, f"group {group_id!r}, {topic.name}-{each.partition_index}"
