"""OffsetFetch (9), versions 1–9: committed offsets of a group, v8+ of several (KIP-709).

- A partition without an offset is answered with offset -1 and no error; null topics (v2+) mean all that have one.
- v7+ require_stable: a partition whose offset is part of an open transaction is UNSTABLE_OFFSET_COMMIT (KIP-447).
- Answered once what was read is durable.

Left out: v10 (topic ids); v9's member id and epoch, which belong to the consumer protocol (KIP-848).
"""

from collections.abc import Mapping

from broker.completion import Completion, all_of
from broker.coordinator.group.offsets import FetchedOffset
from broker.coordinator.group.records import TopicPartition
from broker.dispatch import RequestContext
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.generated.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

Fetched = Mapping[TopicPartition, FetchedOffset]


def handle(context: RequestContext, request: OffsetFetchRequest) -> Completion[OffsetFetchResponse]:
    if context.api_version >= 8:
        groups = [_fetch_group(context, group, request.require_stable) for group in request.groups]
        return all_of(groups).map(lambda results: OffsetFetchResponse(groups=results))
    partitions = None
    if request.topics is not None:
        partitions = [(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    return _fetch(context, request.group_id, partitions, request.require_stable).map(
        lambda result: _single(context, result, partitions)
    )


def _fetch(
    context: RequestContext, group_id: str, partitions: list[TopicPartition] | None, require_stable: bool
) -> Completion[tuple[ErrorCode, Fetched]]:
    answer: Completion[tuple[ErrorCode, Fetched]] = Completion()

    def on_done(done: Completion[Fetched]) -> None:
        if done.error is None:
            answer.complete((ErrorCode.NONE, done.result()))
        elif isinstance(done.error, KafkaError):
            answer.complete((done.error.code, {}))
        else:
            answer.fail(done.error)

    context.broker.groups.offsets.fetch(group_id, partitions, require_stable).then(on_done)
    return answer


def _by_topic(fetched: Fetched) -> dict[str, list[tuple[int, FetchedOffset]]]:
    topics: dict[str, list[tuple[int, FetchedOffset]]] = {}
    for (topic, index), offset in fetched.items():
        topics.setdefault(topic, []).append((index, offset))
    return topics


def _single(
    context: RequestContext, result: tuple[ErrorCode, Fetched], partitions: list[TopicPartition] | None
) -> OffsetFetchResponse:
    error, fetched = result
    if error and context.api_version < 2:  # no place for an error of the whole group: each partition says it
        from broker.coordinator.group.records import CommittedOffset

        nothing = FetchedOffset(error, CommittedOffset(-1, -1, "", -1))
        fetched = dict.fromkeys(partitions or (), nothing)
    return OffsetFetchResponse(
        error_code=error,
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=offset.committed.offset,
                        committed_leader_epoch=offset.committed.leader_epoch,
                        metadata=offset.committed.metadata,
                        error_code=offset.error,
                    )
                    for index, offset in entries
                ],
            )
            for name, entries in _by_topic(fetched).items()
        ],
    )


def _fetch_group(
    context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool
) -> Completion[OffsetFetchResponseGroup]:
    partitions = None
    if group.topics is not None:
        partitions = [(topic.name, index) for topic in group.topics for index in topic.partition_indexes]

    def respond(result: tuple[ErrorCode, Fetched]) -> OffsetFetchResponseGroup:
        error, fetched = result
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            error_code=error,
            topics=[
                OffsetFetchResponseTopics(
                    name=name,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index,
                            committed_offset=offset.committed.offset,
                            committed_leader_epoch=offset.committed.leader_epoch,
                            metadata=offset.committed.metadata,
                            error_code=offset.error,
                        )
                        for index, offset in entries
                    ],
                )
                for name, entries in _by_topic(fetched).items()
            ],
        )

    return _fetch(context, group.group_id, partitions, require_stable).map(respond)
