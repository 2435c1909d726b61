"""WriteTxnMarkers (27), versions 1–2: the markers that end transactions, from a coordinator or from an operator.

Each partition is answered on its own once its marker is durable: an older coordinator epoch is
TRANSACTION_COORDINATOR_FENCED, an older producer epoch INVALID_PRODUCER_EPOCH; then nothing is written.

v2 says the marker's transaction version: one of version 2 must carry a later epoch than its transaction (KIP-1228).
"""

from broker.completion import Completion, all_of
from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from protocol.generated.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> Completion[WriteTxnMarkersResponse]:
    answers = [_write(context, marker) for marker in request.markers]
    return all_of(answers).map(lambda results: WriteTxnMarkersResponse(markers=results))


def _write(context: RequestContext, marker: WritableTxnMarker) -> Completion[WritableTxnMarkerResult]:
    partitions = [(topic.name, index) for topic in marker.topics for index in topic.partition_indexes]
    written = [
        context.broker.markers.write_marker(
            topic,
            index,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            committed=marker.transaction_result,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        for topic, index in partitions
    ]

    def answer(errors: list[ErrorCode]) -> WritableTxnMarkerResult:
        by_partition = dict(zip(partitions, errors, strict=True))
        return WritableTxnMarkerResult(
            producer_id=marker.producer_id,
            topics=[
                WritableTxnMarkerTopicResult(
                    name=topic.name,
                    partitions=[
                        WritableTxnMarkerPartitionResult(
                            partition_index=index, error_code=by_partition[topic.name, index]
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in marker.topics
            ],
        )

    return all_of(written).map(answer)
