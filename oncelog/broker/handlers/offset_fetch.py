"""OffsetFetch (9), versions 1–10: committed offsets of a group, v8+ of several (KIP-709).

- A partition without an offset has offset −1 and no error; null topics (v2+) mean all that have one.
- v7+ require_stable: a partition whose offset is part of an open transaction is UNSTABLE_OFFSET_COMMIT (KIP-447).
- The response is sent once what was read is durable.
- An offset of a deleted topic does not exist, even if a topic of that name has been created again.
- v10 names topics by their ids: UNKNOWN_TOPIC_ID.
- A repeated group is returned once, for its first occurrence, and so is a partition. The offsets of a group are all of
  one moment.
- v9+ a member of a consumer group sends its epoch (KIP-848): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from oncelog.broker.cluster.topics import Topics
from oncelog.broker.coordinator.group.offsets import NOTHING_FETCHED, FetchedOffset, GroupOffsets
from oncelog.broker.coordinator.group.records import NO_COMMITTED_OFFSET, TopicPartition
from oncelog.broker.handlers.shared.asked_topics import asked_topic, names_by_id
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from oncelog.protocol.topics import ZERO_UUID

_UNKNOWN_TOPIC = FetchedOffset(ErrorCode.UNKNOWN_TOPIC_ID, NO_COMMITTED_OFFSET)


def handle(context: RequestContext, request: OffsetFetchRequest) -> Sliced[OffsetFetchResponse]:
    if context.api_version < 8:
        return (yield from _single_group(context, request))
    asked: dict[str, _Asked] = {}
    for group in request.groups:
        yield 1
        if group.group_id not in asked:
            asked[group.group_id] = yield from _resolve(context, group, request.require_stable)
    groups = []
    for group_id, ask in asked.items():
        yield ask.fetched
        groups.append((yield from _group_response(context, group_id, ask)))
    return OffsetFetchResponse(groups=groups)


class _Asked(NamedTuple):
    """The requested partitions of a group, by topic name, however the request names them, and the group's offsets."""

    partitions: Sequence[TopicPartition] | None
    unknown: Sequence[OffsetFetchRequestTopics]
    fetched: Completion[GroupOffsets]


class _Result(NamedTuple):
    """Offsets by topic, or the error of the whole group."""

    error: ErrorCode
    topics: Mapping[str, Sequence[tuple[int, FetchedOffset]]]


def _resolve(context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool) -> Sliced[_Asked]:
    unknown: list[OffsetFetchRequestTopics] = []
    partitions: list[TopicPartition] | None = None if group.topics is None else []
    for wanted in group.topics or ():
        name = asked_topic(context, wanted)
        if name is None:
            unknown.append(wanted)
        elif partitions is not None:
            partitions += [(name, index) for index in wanted.partition_indexes]
        yield 1 + len(wanted.partition_indexes) // 4
    offsets = context.broker.groups.offsets
    fetched = offsets.fetch(group.group_id, partitions, require_stable, group.member_id, group.member_epoch)
    return _Asked(partitions, unknown, fetched)


def _result(
    topics: Topics, fetched: Completion[GroupOffsets], partitions: Sequence[TopicPartition] | None
) -> Sliced[_Result]:
    """Return the offsets of a group; a partition that is named several times is returned once."""
    if isinstance(fetched.error, KafkaError):
        return _Result(fetched.error.code, {})
    offsets = fetched.result()
    by_topic: dict[str, list[tuple[int, FetchedOffset]]] = {}
    for partition in offsets.partitions() if partitions is None else dict.fromkeys(partitions):
        yield 1
        offset = _current(topics, partition, offsets.get(partition))
        if partitions is not None or offset is not NOTHING_FETCHED:
            by_topic.setdefault(partition[0], []).append((partition[1], offset))
    return _Result(ErrorCode.NONE, by_topic)


def _current(topics: Topics, partition: TopicPartition, fetched: FetchedOffset) -> FetchedOffset:
    topic_id = fetched.committed.topic_id
    if topic_id == ZERO_UUID:
        return fetched
    topic = topics.get(partition[0])
    return fetched if topic is not None and topic.topic_id == topic_id else NOTHING_FETCHED


def _single_group(context: RequestContext, request: OffsetFetchRequest) -> Sliced[OffsetFetchResponse]:
    partitions: list[TopicPartition] | None = None if request.topics is None else []
    for wanted in request.topics or ():
        if partitions is not None:
            partitions += [(wanted.name, index) for index in wanted.partition_indexes]
        yield 1 + len(wanted.partition_indexes) // 4
    fetched = context.broker.groups.offsets.fetch(request.group_id, partitions, request.require_stable)
    yield fetched
    result = yield from _result(context.broker.topics, fetched, partitions)
    if result.error and context.api_version < 2:  # no field for an error of the whole group: set in each partition
        refused = FetchedOffset(result.error, NO_COMMITTED_OFFSET)
        by_topic: dict[str, list[tuple[int, FetchedOffset]]] = {}
        for name, index in dict.fromkeys(partitions or ()):
            yield 1
            by_topic.setdefault(name, []).append((index, refused))
        result = _Result(result.error, by_topic)
    topics = []
    for name, entries in result.topics.items():
        shown = yield from each(entries, _single_partition)
        topics.append(OffsetFetchResponseTopic(name=name, partitions=shown))
    return OffsetFetchResponse(error_code=result.error, topics=topics)


def _single_partition(entry: tuple[int, FetchedOffset]) -> OffsetFetchResponsePartition:
    index, (error, committed) = entry
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )


def _group_response(context: RequestContext, group_id: str, asked: _Asked) -> Sliced[OffsetFetchResponseGroup]:
    topics = context.broker.topics
    by_id = names_by_id(context)
    result = yield from _result(topics, asked.fetched, asked.partitions)
    answers = []
    for name, entries in result.topics.items():
        topic = topics.get(name)
        if by_id and topic is None:  # it has been deleted meanwhile
            continue
        partitions = yield from each(entries, _partition)
        topic_id = topic.topic_id if by_id and topic is not None else ZERO_UUID
        answers.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    for wanted in asked.unknown if not result.error else ():
        unknown = ((index, _UNKNOWN_TOPIC) for index in wanted.partition_indexes)
        answers.append(
            OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=(yield from each(unknown, _partition)))
        )
    return OffsetFetchResponseGroup(group_id=group_id, error_code=result.error, topics=answers)


def _partition(entry: tuple[int, FetchedOffset]) -> OffsetFetchResponsePartitions:
    index, (error, committed) = entry
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
