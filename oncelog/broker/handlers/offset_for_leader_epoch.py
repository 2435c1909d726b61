"""OffsetForLeaderEpoch (23), versions 2–4: where a leader epoch ended, for a reader to detect a diverging log.

- librdkafka uses v2 to validate positions, Java v3 and v4 (KIP-320); v3 adds the replica id, v4 is flexible.
- The epoch of the log ends at its log end offset; a newer one is unknown: epoch and offset −1 (KIP-101).
- Errors by partition: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH for the client's own, UNKNOWN_TOPIC_OR_PARTITION.
"""

from functools import partial

from oncelog.broker.cluster.leader_epoch import check_leader_epoch, end_offset_for_epoch
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.errors import KafkaError
from oncelog.protocol.generated.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from oncelog.protocol.generated.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> Sliced[OffsetForLeaderEpochResponse]:
    topics = []
    for topic in request.topics:
        partitions = yield from each(topic.partitions, partial(_end_of_epoch, context, topic.topic), 2)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
        yield 1
    return OffsetForLeaderEpochResponse(topics=topics)


def _end_of_epoch(context: RequestContext, topic: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        log = context.broker.topics.partition(topic, wanted.partition)
        check_leader_epoch(log, wanted.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(partition=wanted.partition, error_code=error.code)
    leader_epoch, end_offset = end_offset_for_epoch(log, wanted.leader_epoch)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=leader_epoch, end_offset=end_offset)
