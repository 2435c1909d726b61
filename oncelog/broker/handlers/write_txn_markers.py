"""WriteTxnMarkers (27), versions 1–2: the markers that end transactions, from a coordinator or from an operator.

Each partition has its own result once its marker is durable: an older coordinator epoch is
TRANSACTION_COORDINATOR_FENCED, an older producer epoch INVALID_PRODUCER_EPOCH; then nothing is written. A partition
that a marker names several times gets one.

v2 has the marker's transaction version: one of version 2 must carry a later epoch than its transaction (KIP-1228).
"""

from collections.abc import Mapping

from oncelog.broker.log.values import EndMarker
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from oncelog.protocol.generated.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> Sliced[WriteTxnMarkersResponse]:
    written = []
    for wanted in request.markers:
        marker = EndMarker(
            producer_id=wanted.producer_id,
            producer_epoch=wanted.producer_epoch,
            committed=wanted.transaction_result,
            coordinator_epoch=wanted.coordinator_epoch,
            transaction_version=wanted.transaction_version,
        )
        by_partition: dict[tuple[str, int], Completion[ErrorCode]] = {}
        for topic in wanted.topics:
            for index in topic.partition_indexes:
                if (topic.name, index) not in by_partition:
                    by_partition[topic.name, index] = context.broker.markers.write_marker(topic.name, index, marker)
                    yield 4
                yield 1
        written.append((wanted, by_partition))
    results = []
    for wanted, by_partition in written:
        yield from by_partition.values()
        results.append((yield from _answer(wanted, by_partition)))
    return WriteTxnMarkersResponse(markers=results)


def _answer(
    wanted: WritableTxnMarker, by_partition: Mapping[tuple[str, int], Completion[ErrorCode]]
) -> Sliced[WritableTxnMarkerResult]:
    topics = []
    for topic in wanted.topics:
        partitions = []
        for index in topic.partition_indexes:
            error = by_partition[topic.name, index].result()
            partitions.append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=error))
            yield 1
        topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        yield 1
    return WritableTxnMarkerResult(producer_id=wanted.producer_id, topics=topics)
