"""The requests about share groups: describe them, and read, move and delete their offsets.

Owns: the requests, and their errors as exceptions. Does not own: listing and deleting groups, which is the same for all
types (`groups`), the public names (`client`, which imports this at the first use). Each request goes to the group's
coordinator. KIPs: 932, 1226.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from oncelog.client.admin.calls import Code, ask_coordinator, raise_for_group, require_topics
from oncelog.client.admin.share_descriptions import ShareGroupDescription, ShareMemberDescription, SharePartitionOffset
from oncelog.client.values.errors import ConfigError, raise_for
from oncelog.client.values.records import TopicPartition
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster, CoordinatorKind
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    alter_share_group_offsets_request,
    alter_share_group_offsets_response,
    delete_share_group_offsets_request,
    delete_share_group_offsets_response,
    describe_share_group_offsets_request,
    describe_share_group_offsets_response,
    share_group_describe_request,
    share_group_describe_response,
)
from oncelog.protocol.generated.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse
from oncelog.protocol.generated.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from oncelog.protocol.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
)
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_describe_response import DescribedGroup, Member

_DESCRIBE = api_of(share_group_describe_request, share_group_describe_response, 1, 1)
_DESCRIBE_OFFSETS = api_of(describe_share_group_offsets_request, describe_share_group_offsets_response, 0, 1)
_ALTER_OFFSETS = api_of(alter_share_group_offsets_request, alter_share_group_offsets_response, 0, 0)
_DELETE_OFFSETS = api_of(delete_share_group_offsets_request, delete_share_group_offsets_response, 0, 0)


async def describe_group(cluster: Cluster, group_id: str, deadline: Deadline) -> ShareGroupDescription:
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DESCRIBE,
        ShareGroupDescribeRequest(group_ids=(group_id,)),
        deadline,
        lambda each: [_code_of(each.groups[0])],
    )
    group = response.groups[0]
    return ShareGroupDescription(
        group_id,
        group.group_state,
        group.assignor_name,
        group.group_epoch,
        group.assignment_epoch,
        cluster.known_coordinator(CoordinatorKind.GROUP, group_id),
        tuple(map(_member, group.members)),
    )


def _member(member: Member) -> ShareMemberDescription:
    assigned = [
        TopicPartition(topic.topic_name, index)
        for topic in member.assignment.topic_partitions
        for index in topic.partitions
    ]
    return ShareMemberDescription(
        member.member_id,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.member_epoch,
        tuple(sorted(member.subscribed_topic_names)),
        tuple(sorted(assigned)),
    )


async def list_offsets(
    cluster: Cluster, group_id: str, partitions: Sequence[TopicPartition] | None, deadline: Deadline
) -> dict[TopicPartition, SharePartitionOffset]:
    """Return the offsets of these partitions, or of all that the group has read or is to read, sorted."""
    named = None
    if partitions is not None:
        named = [
            DescribeShareGroupOffsetsRequestTopic(name, indexes) for name, indexes in _by_topic(partitions).items()
        ]
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DESCRIBE_OFFSETS,
        DescribeShareGroupOffsetsRequest(groups=[DescribeShareGroupOffsetsRequestGroup(group_id, named)]),
        deadline,
        lambda each: [_code_of(each.groups[0])],
    )
    found: dict[TopicPartition, SharePartitionOffset] = {}
    for topic in response.groups[0].topics:
        for each in topic.partitions:
            place = TopicPartition(topic.topic_name, each.partition_index)
            raise_for(each.error_code, _about(group_id, *place, each.error_message))
            found[place] = _offset(each)
    return dict(sorted(found.items()))


def _offset(partition: DescribeShareGroupOffsetsResponsePartition) -> SharePartitionOffset:
    return SharePartitionOffset(
        *(None if each < 0 else each for each in (partition.start_offset, partition.leader_epoch, partition.lag))
    )


async def alter_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> None:
    """Move the start of these partitions, and create the group if it does not exist."""
    await require_topics(cluster, {topic for topic, _ in offsets}, deadline)
    for place in offsets:
        cluster.metadata.checked_leader(place)
    topics = [
        AlterShareGroupOffsetsRequestTopic(
            name,
            [AlterShareGroupOffsetsRequestPartition(each, offsets[TopicPartition(name, each)]) for each in indexes],
        )
        for name, indexes in _by_topic(offsets).items()
    ]
    await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _ALTER_OFFSETS,
        AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics),
        deadline,
        lambda each: _alter_codes(group_id, each),
        raise_for_group,
    )


def _alter_codes(group_id: str, response: AlterShareGroupOffsetsResponse) -> Iterator[Code]:
    if response.error_code == ErrorCode.GROUP_ID_NOT_FOUND:  # where there is none, one is created
        yield response.error_code, f"group {group_id!r} is not a share group"
    yield _group_code(group_id, response.error_code, response.error_message)
    for topic in response.responses:
        for each in topic.partitions:
            yield each.error_code, _about(group_id, topic.topic_name, each.partition_index, each.error_message)


async def delete_offsets(cluster: Cluster, group_id: str, topics: Collection[str], deadline: Deadline) -> None:
    await require_topics(cluster, topics, deadline)
    response = await ask_coordinator(
        cluster,
        CoordinatorKind.GROUP,
        group_id,
        _DELETE_OFFSETS,
        DeleteShareGroupOffsetsRequest(
            group_id=group_id, topics=[DeleteShareGroupOffsetsRequestTopic(name) for name in topics]
        ),
        deadline,
        lambda each: [_group_code(group_id, each.error_code, each.error_message)],
        raise_for_group,
    )
    for each in response.responses:
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # the topic exists
            text = f"share group {group_id!r} has no offsets of topic {each.topic_name!r}"
            raise ConfigError(text, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        raise_for(each.error_code, f"share group {group_id!r}, topic {each.topic_name!r}: {each.error_message or ''}")


def _code_of(group: DescribedGroup | DescribeShareGroupOffsetsResponseGroup) -> Code:
    return _group_code(group.group_id, group.error_code, group.error_message)


def _group_code(group_id: str, code: int, message: str | None) -> Code:
    if code == ErrorCode.GROUP_ID_NOT_FOUND:  # a group of another type is none here
        return code, f"share group {group_id!r} does not exist"
    if code == ErrorCode.NON_EMPTY_GROUP:
        return code, f"share group {group_id!r}"
    return code, f"share group {group_id!r}: {message or ''}"


def _about(group_id: str, topic: str, partition: int, message: str | None) -> str:
    return f"share group {group_id!r}, {topic}-{partition}: {message or ''}"


def _by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in places:
        topics.setdefault(topic, []).append(partition)
    return topics
