"""DeleteRecords (21), versions 0–2: advances the start of partitions to an offset (KIP-107).

- −1 means the high watermark. An offset above it, or below −1: OFFSET_OUT_OF_RANGE.
- An offset below the start changes nothing and is not an error.
- A topic with cleanup.policy=compact alone: POLICY_VIOLATION. An internal one: INVALID_TOPIC_EXCEPTION.
- A partition that is named several times has one result; its last offset counts, as in Kafka.
- The new start is durable before the response; whole segments below it are deleted, the others when they are complete
  and old.
"""

from oncelog.broker.log.partition_log import PartitionLog
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.delete_records_request import DeleteRecordsRequest
from oncelog.protocol.generated.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

_HIGH_WATERMARK = -1
_NO_LOW_WATERMARK = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Sliced[DeleteRecordsResponse]:
    topics: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        offsets = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            offsets[partition.partition_index] = partition.offset
            yield 1
    results = []
    for name, offsets in topics.items():
        partitions = []
        for index, offset in offsets.items():
            partitions.append((yield from _delete(context, name, index, offset)))
            yield 8
        results.append(DeleteRecordsTopicResult(name=name, partitions=partitions))
    return DeleteRecordsResponse(topics=results)


def _delete(context: RequestContext, name: str, index: int, offset: int) -> Sliced[DeleteRecordsPartitionResult]:
    low_watermark, error_code = _NO_LOW_WATERMARK, ErrorCode.NONE
    try:
        log = _log_of(context, name, index)
        answered = log.when_answers_are_durable()
        if answered is not None:
            yield answered
            answered.result()
        moved = _move_start(context, log, offset)
        yield moved
        moved.result()
        low_watermark = log.log_start_offset
    except KafkaError as error:
        error_code = error.code
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error_code)


def _log_of(context: RequestContext, name: str, index: int) -> PartitionLog:
    topic = context.broker.topics.get(name)
    if topic is not None and topic.is_internal:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {name}.")
    log = context.broker.topics.partition(name, index)
    if log.config.is_compacted and not log.config.is_deleting:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"{log.name} is compacted: records are deleted by key only.")
    return log


def _move_start(context: RequestContext, log: PartitionLog, offset: int) -> Completion[None]:
    before_offset = log.high_watermark if offset == _HIGH_WATERMARK else offset
    if not 0 <= before_offset <= log.high_watermark:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return context.broker.logs.delete_records(log, before_offset)
