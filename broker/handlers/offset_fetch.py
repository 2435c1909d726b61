"""OffsetFetch (9), versions 1–10: committed offsets of a group, v8+ of several (KIP-709).

- A partition without an offset is answered with offset -1 and no error; null topics (v2+) mean all that have one.
- v7+ require_stable: a partition whose offset is part of an open transaction is UNSTABLE_OFFSET_COMMIT (KIP-447).
- Answered once what was read is durable.
- An offset of a topic that has been deleted is none, also when a topic of that name has been made again.
- v10 names topics by their ids: UNKNOWN_TOPIC_ID.
- v9+ a member of a consumer group says its epoch (KIP-848): UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from uuid import UUID

from broker.completion import Completion, all_of
from broker.coordinator.group.offsets import NOTHING_FETCHED, FetchedOffset
from broker.coordinator.group.records import NO_COMMITTED_OFFSET, NO_TOPIC_ID, TopicPartition
from broker.dispatch import RequestContext
from broker.topics import Topics
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestTopics
from protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

Fetched = Mapping[TopicPartition, FetchedOffset]
_TOPIC_IDS_SINCE = 10
_UNKNOWN_TOPIC = FetchedOffset(ErrorCode.UNKNOWN_TOPIC_ID, NO_COMMITTED_OFFSET)


def handle(context: RequestContext, request: OffsetFetchRequest) -> Completion[OffsetFetchResponse]:
    if context.api_version >= 8:
        answers: list[Completion[OffsetFetchResponseGroup]] = []
        for group in request.groups:
            asked = _Asked(context, group.topics)
            fetched = _fetch(
                context, group.group_id, asked.partitions, request.require_stable, group.member_id, group.member_epoch
            )
            answers.append(fetched.map(partial(_group_response, group.group_id, asked)))
        return all_of(answers).map(lambda groups: OffsetFetchResponse(groups=groups))
    partitions = None
    if request.topics is not None:
        partitions = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    fetched = _fetch(context, request.group_id, partitions, request.require_stable)
    return fetched.map(lambda result: _single_response(context, result, partitions or ()))


class _Asked:
    """The partitions that a group is asked for, by topic names, whatever the request names them by."""

    __slots__ = ("_topics", "by_id", "partitions", "unknown")

    def __init__(self, context: RequestContext, topics: Sequence[OffsetFetchRequestTopics] | None) -> None:
        self._topics = context.broker.topics
        self.by_id = context.api_version >= _TOPIC_IDS_SINCE
        self.unknown: list[OffsetFetchRequestTopics] = []
        self.partitions: list[TopicPartition] | None = None if topics is None else []
        for wanted in topics or ():
            name: str | None = wanted.name
            if self.by_id:
                topic = self._topics.by_id(wanted.topic_id)
                name = None if topic is None else topic.name
            if name is None:
                self.unknown.append(wanted)
            elif self.partitions is not None:
                self.partitions += [(name, index) for index in wanted.partition_indexes]

    def id_of(self, name: str) -> UUID | None:
        """The id to answer with; None for a topic that is gone by now."""
        topic = self._topics.get(name)
        return None if topic is None else topic.topic_id


class _Result:
    """Offsets by topic, or the error of the whole group."""

    __slots__ = ("error", "topics")

    def __init__(self, error: ErrorCode, offsets: Iterable[tuple[TopicPartition, FetchedOffset]]) -> None:
        self.error = error
        self.topics: dict[str, list[tuple[int, FetchedOffset]]] = {}
        for (topic, index), offset in offsets:
            self.topics.setdefault(topic, []).append((index, offset))


def _fetch(
    context: RequestContext,
    group_id: str,
    partitions: Sequence[TopicPartition] | None,
    require_stable: bool,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> Completion[_Result]:
    topics = context.broker.topics
    answer: Completion[_Result] = Completion()

    def on_done(done: Completion[Fetched]) -> None:
        error = done.error
        if error is None:
            current = [(partition, _current(topics, partition, it)) for partition, it in done.result().items()]
            if partitions is None:
                current = [entry for entry in current if entry[1] is not NOTHING_FETCHED]
            answer.complete(_Result(ErrorCode.NONE, current))
        elif isinstance(error, KafkaError):
            answer.complete(_Result(error.code, ()))
        else:
            answer.fail(error)

    offsets = context.broker.groups.offsets
    offsets.fetch(group_id, partitions, require_stable, member_id, member_epoch).then(on_done)
    return answer


def _current(topics: Topics, partition: TopicPartition, fetched: FetchedOffset) -> FetchedOffset:
    topic_id = fetched.committed.topic_id
    if topic_id == NO_TOPIC_ID:
        return fetched
    topic = topics.get(partition[0])
    return fetched if topic is not None and topic.topic_id == topic_id else NOTHING_FETCHED


def _single_response(
    context: RequestContext, result: _Result, partitions: Sequence[TopicPartition]
) -> OffsetFetchResponse:
    if result.error and context.api_version < 2:  # no place for an error of the whole group: each partition says it
        refused = FetchedOffset(result.error, NO_COMMITTED_OFFSET)
        result = _Result(result.error, ((partition, refused) for partition in partitions))
    return OffsetFetchResponse(
        error_code=result.error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.metadata,
                        error_code=error,
                    )
                    for index, (error, committed) in entries
                ],
            )
            for name, entries in result.topics.items()
        ],
    )


def _group_response(group_id: str, asked: _Asked, result: _Result) -> OffsetFetchResponseGroup:
    topics = []
    for name, entries in result.topics.items():
        topic_id = asked.id_of(name) if asked.by_id else NO_TOPIC_ID
        if topic_id is not None:
            partitions = [_partition(index, fetched) for index, fetched in entries]
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    for wanted in asked.unknown if not result.error else ():
        partitions = [_partition(index, _UNKNOWN_TOPIC) for index in wanted.partition_indexes]
        topics.append(OffsetFetchResponseTopics(topic_id=wanted.topic_id, partitions=partitions))
    return OffsetFetchResponseGroup(group_id=group_id, error_code=result.error, topics=topics)


def _partition(index: int, fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    error, committed = fetched
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=error,
    )
