"""ListOffsets (2), versions 1–11: the offsets that bound a partition, or the first at or after a timestamp.

- −1 latest: the high watermark, or the last stable offset for read_committed (v2+, KIP-98). −2 earliest.
- −3 the record with the largest timestamp (v7+, KIP-734), −4 earliest local = earliest (v8+, KIP-405); −5 latest tiered
  (v9+, KIP-1005) and −6 earliest pending upload (v11+, KIP-1023): there is no tiered storage here, so −1. A sentinel
  below its version, or another negative timestamp, is rejected with UNSUPPORTED_VERSION.
- v4+ carries leader epochs: older FENCED_LEADER_EPOCH, newer UNKNOWN_LEADER_EPOCH.
- For a timestamp after the last record that the reader may see: offset −1, timestamp −1. Non-consumers (a replica id of
  0 or more, −2 for tools) see up to the log end.
- A partition that is repeated in one request has one result, INVALID_REQUEST.

A lookup that needs the disk, or to decompress a batch, waits for it off the event loop. v10's timeout_ms bounds lookups
in remote storage; all lookups here are local.
"""

from oncelog.broker.cluster.leader_epoch import check_leader_epoch
from oncelog.broker.log.log_config import INT64_MAX
from oncelog.broker.log.partition_log import FetchIsolation, PartitionLog
from oncelog.broker.log.store import FoundRecord
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from oncelog.protocol.generated.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
_SENTINEL_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_CONSUMER = -1
_NOWHERE = (-1, -1)
_NEVER = 32_767


def handle(context: RequestContext, request: ListOffsetsRequest) -> Sliced[ListOffsetsResponse]:
    if request.replica_id != _CONSUMER:
        isolation = FetchIsolation.LOG_END
    elif request.isolation_level:
        isolation = FetchIsolation.TXN_COMMITTED
    else:
        isolation = FetchIsolation.HIGH_WATERMARK
    topics: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        found = topics.setdefault(topic.name, {})
        for partition in topic.partitions:
            index = partition.partition_index
            is_repeated = index in found
            yield 2 if partition.timestamp < 0 else 16
            found[index] = (
                _error_response(index, ErrorCode.INVALID_REQUEST)
                if is_repeated
                else (yield from _lookup(context, topic.name, partition, isolation))
            )
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=name, partitions=list(found.values())) for name, found in topics.items()]
    )


def _lookup(
    context: RequestContext, topic: str, wanted: ListOffsetsPartition, isolation: FetchIsolation
) -> Sliced[ListOffsetsPartitionResponse]:
    try:
        if wanted.timestamp < 0 and context.api_version < _SENTINEL_SINCE.get(wanted.timestamp, _NEVER):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        log = context.broker.topics.partition(topic, wanted.partition_index)
        check_leader_epoch(log, wanted.current_leader_epoch)
        answered = None if isolation is FetchIsolation.TXN_COMMITTED else log.when_answers_are_durable()
        if answered is not None:
            yield answered
            answered.result()
        found = _find(log, wanted.timestamp, isolation)
        if isinstance(found, Completion):  # not in memory yet
            yield found
            found = found.result()
    except KafkaError as error:
        return _error_response(wanted.partition_index, error.code)
    offset, timestamp = found
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        offset=offset,
        timestamp=timestamp,
        leader_epoch=log.leader_epoch if wanted.timestamp == LATEST else log.epochs.epoch_of(offset),
    )


def _error_response(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=code)


def _find(
    log: PartitionLog, timestamp: int, isolation: FetchIsolation
) -> tuple[int, int] | Completion[tuple[int, int]]:
    if timestamp == LATEST:
        return log.upper_bound(isolation), -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.log_start_offset, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOWHERE
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
        # As in Kafka: while that record is still out of sight, no other one stands in for it.
        bound = log.upper_bound(isolation)
    else:
        found, bound = log.offset_for_timestamp(timestamp, isolation), INT64_MAX
    if isinstance(found, Completion):
        return found.map(lambda later: _if_below(bound, later))
    return _if_below(bound, found)


def _if_below(bound: int, found: FoundRecord | None) -> tuple[int, int]:
    return _NOWHERE if found is None or found[0] >= bound else found
