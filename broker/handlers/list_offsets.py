"""ListOffsets (2), versions 1–9: the offsets that bound a partition, or the first at or after a timestamp.

- −1 latest: the high watermark, or the last stable offset for read_committed (v2+, KIP-98). −2 earliest.
- −3 the record with the largest timestamp (v7+, KIP-734), −4 earliest local = earliest (v8+), −5 latest tiered: none
  here, so −1 (v9+). A sentinel below its version is refused with UNSUPPORTED_VERSION.
- v4+ carries leader epochs: older FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH.
- A timestamp beyond the last record answers offset −1, timestamp −1.
"""

from broker.dispatch import RequestContext
from broker.handlers.leader_epoch import check_leader_epoch
from broker.log.partition_log import FetchIsolation, PartitionLog
from protocol.errors import ErrorCode, KafkaError
from protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from protocol.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
_SENTINEL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    if request.replica_id >= 0:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_lookup(context, topic.name, partition, isolation) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _lookup(
    context: RequestContext, topic: str, wanted: ListOffsetsPartition, isolation: FetchIsolation
) -> ListOffsetsPartitionResponse:
    try:
        log = context.broker.topics.partition(topic, wanted.partition_index)
        check_leader_epoch(log, wanted.current_leader_epoch)
        if wanted.timestamp < 0 and context.api_version < _SENTINEL_SINCE.get(wanted.timestamp, 32_767):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        offset, timestamp = _find(log, wanted.timestamp, isolation)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        offset=offset,
        timestamp=timestamp,
        leader_epoch=log.leader_epoch if offset >= 0 else -1,
    )


def _find(log: PartitionLog, timestamp: int, isolation: FetchIsolation) -> tuple[int, int]:
    match timestamp:
        case -1:
            return log.upper_bound(isolation), -1
        case -2 | -4:
            return log.log_start_offset, -1
        case -5:
            return -1, -1
        case -3:
            found = log.offset_of_max_timestamp()
        case _:
            found = log.offset_for_timestamp(timestamp, isolation)
    return found if found is not None else (-1, -1)
