"""DescribeShareGroupOffsets (90), versions 0–1: where share groups are in their partitions (KIP-932).

- Without topics every partition whose state is made is returned. A group that does not exist has none.
- A partition without a state, or of a topic that does not exist, has the start offset -1, and no error: it has not been
  read, as OffsetFetch says of one without an offset.
- v1+ the lag: the records up to the high watermark that are neither acknowledged nor archived (KIP-1226); -1 if it is
  not known. It wraps around at the ends of int64, as Kafka's does, where a start offset was set that far away.
- UNKNOWN_SERVER_ERROR, as in Kafka, for a group without a name, a topic without partitions, a partition below zero.
- UNSUPPORTED_VERSION while the finalized feature share.version is 0.
"""

from collections.abc import Sequence

from oncelog.broker.cluster.metadata_log import Topic
from oncelog.broker.coordinator.share.values import (
    UNINITIALIZED_START_OFFSET,
    UNKNOWN_DELIVERY_COMPLETE_COUNT,
    ShareState,
)
from oncelog.broker.handlers.shared.share_groups import serves_share_groups
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.describe_share_group_offsets_request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from oncelog.protocol.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

_SUMMARY_ELEMENTS = 4


def handle(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> Sliced[DescribeShareGroupOffsetsResponse]:
    groups = []
    for group in request.groups:
        yield 1
        if not serves_share_groups(context):
            error = ErrorCode.UNSUPPORTED_VERSION
            groups.append(DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=error))
        else:
            groups.append((yield from _group(context, group)))
    return DescribeShareGroupOffsetsResponse(groups=groups)


def _group(
    context: RequestContext, group: DescribeShareGroupOffsetsRequestGroup
) -> Sliced[DescribeShareGroupOffsetsResponseGroup]:
    topics, group_id = context.broker.topics, group.group_id
    known: list[tuple[Topic, Sequence[int]]] = []
    missing = []
    if group.topics is None:
        made = context.broker.groups.shares.offsets.initialized(group_id)
        yield made
        if isinstance(made.error, KafkaError):
            code = made.error.code
            return DescribeShareGroupOffsetsResponseGroup(
                group_id=group_id, error_code=code, error_message=code.text or None
            )
        for topic_id, states in made.result().items():
            topic = topics.by_id(topic_id)
            if topic is not None:
                known.append((topic, sorted(states.partitions)))
    for asked in group.topics or ():
        topic = topics.get(asked.topic_name)
        if topic is not None:
            known.append((topic, asked.partitions))
        else:
            rows = [_row(index) for index in asked.partitions]
            missing.append(DescribeShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, partitions=rows))
            yield len(rows)
    if group.topics and not _is_valid(group_id, known):
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=code, error_message=code.text)
    found = []
    for topic, partitions in known:
        found.append((yield from _topic(context, group_id, topic, partitions)))
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[*found, *missing])


def _is_valid(group_id: str, known: Sequence[tuple[Topic, Sequence[int]]]) -> bool:
    """Whether the share coordinator can be asked; if not, Kafka says only that something is wrong."""
    return not known or (bool(group_id) and all(partitions and min(partitions) >= 0 for _, partitions in known))


def _topic(
    context: RequestContext, group_id: str, topic: Topic, partitions: Sequence[int]
) -> Sliced[DescribeShareGroupOffsetsResponseTopic]:
    asked: list[tuple[int, Completion[ShareState]]] = []
    for index in partitions:
        asked.append((index, context.broker.groups.shares.offsets.summary(group_id, topic.topic_id, index)))
        yield _SUMMARY_ELEMENTS
    rows = []
    for index, summary in asked:
        if not summary.done:
            yield summary
        if isinstance(summary.error, KafkaError):
            rows.append(_row(index))
        else:
            rows.append(_partition(context, topic.name, index, summary.result()))
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic.topic_id, partitions=rows)


def _partition(
    context: RequestContext, name: str, index: int, state: ShareState
) -> DescribeShareGroupOffsetsResponsePartition:
    start_offset, complete_count = state.start_offset, state.delivery_complete_count
    if start_offset == UNINITIALIZED_START_OFFSET or complete_count == UNKNOWN_DELIVERY_COMPLETE_COUNT:
        return _row(index, start_offset, state.leader_epoch)
    try:
        end_offset = context.broker.topics.partition(name, index).high_watermark
    except KafkaError as error:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=index, error_code=error.code, error_message=error.code.text or None
        )
    return _row(index, start_offset, state.leader_epoch, _as_long(end_offset - start_offset - complete_count))


def _as_long(number: int) -> int:
    """Return the difference of two offsets as an int64 that wraps, as in Kafka: any int64 is a start offset, also a
    negative one."""
    return (number + 2**63) % 2**64 - 2**63


def _row(
    index: int, start_offset: int = UNINITIALIZED_START_OFFSET, leader_epoch: int = 0, lag: int = -1
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index, start_offset=start_offset, leader_epoch=leader_epoch, lag=lag
    )
