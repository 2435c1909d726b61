"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

- Topics are sorted by name, each once; none named means all. A page ends after `response_partition_limit` partitions
  (at least 1, at most `max.request.partition.size.limit`); the cursor says where to continue.
- A cursor must name one of the requested topics and a partition of it: otherwise INVALID_REQUEST for every topic.
- A partition whose files cannot be used has no leader and no replica in sync; this node is its offline replica, and the
  last that was eligible, as in Kafka.
- One node has no eligible leader replicas besides the leader: the lists are empty.
"""

from collections.abc import Iterable

from oncelog.broker.cluster.leadership import NO_LEADER
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.handlers.shared.authorized_operations import TOPIC_OPERATIONS
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced, each, in_order
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_topic_partitions_request import DescribeTopicPartitionsRequest
from oncelog.protocol.generated.describe_topic_partitions_response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

_NOBODY: tuple[int, ...] = ()


def handle(
    context: RequestContext, request: DescribeTopicPartitionsRequest
) -> Sliced[DescribeTopicPartitionsResponse | Completion[DescribeTopicPartitionsResponse]]:
    named = [topic.name for topic in request.topics]
    cursor = request.cursor
    first_name, first_index = ("", 0) if cursor is None else (cursor.topic_name, cursor.partition_index)
    if cursor is not None and (first_index < 0 or (named and first_name not in named)):
        return DescribeTopicPartitionsResponse(topics=(yield from each(named, _error_response)))
    names = named or [topic.name for topic in context.broker.topics.all()]
    most = context.broker.config.get_int("max.request.partition.size.limit")
    limit = max(1, min(request.response_partition_limit, most))
    in_page = yield from in_order(name for name in names if name >= first_name)
    response = yield from _page(context, in_page, first_name, first_index, limit)
    # A topic that a crash could still undo is not returned.
    durable = context.broker.metadata.durable()
    return response if durable.done else durable.map(lambda _: response)


def _page(
    context: RequestContext, names: Iterable[str], first_name: str, first_index: int, limit: int
) -> Sliced[DescribeTopicPartitionsResponse]:
    described = []
    left = limit
    next_cursor: Cursor | None = None
    for name in names:
        start = first_index if name == first_name else 0
        topic = context.broker.topics.get(name)
        partition_count = 0 if topic is None else topic.partition_count
        if not left and partition_count:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        end = min(partition_count, start + left)
        described.append(_describe(context, name, range(start, end)))
        yield 1 + max(0, end - start)
        left -= max(0, end - start)
        if end < partition_count:
            next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return DescribeTopicPartitionsResponse(topics=described, next_cursor=next_cursor)


def _describe(context: RequestContext, name: str, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    topic = context.broker.topics.get(name)
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(
            error_code=_why_missing(name), name=name, topic_authorized_operations=TOPIC_OPERATIONS
        )
    leadership = context.broker.leadership
    nodes = leadership.replica_node_ids
    offline = context.broker.logs.offline_of(name)
    return DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=NO_LEADER if index in offline else leader.node_id,
                leader_epoch=leader.epoch,
                replica_nodes=nodes,
                isr_nodes=_NOBODY if index in offline else nodes,
                eligible_leader_replicas=_NOBODY,
                last_known_elr=nodes if index in offline else _NOBODY,
                offline_replicas=nodes if index in offline else _NOBODY,
            )
            for index, leader in zip(indexes, leadership.leaders_of(topic, indexes), strict=True)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _error_response(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)


def _why_missing(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except KafkaError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
