"""ReadShareGroupStateSummary (87), versions 0–1: as Kafka where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.read_share_group_state_summary_request import ReadShareGroupStateSummaryRequest
from oncelog.protocol.generated.read_share_group_state_summary_response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)


def handle(_: RequestContext, request: ReadShareGroupStateSummaryRequest) -> ReadShareGroupStateSummaryResponse:
    text = "Unable to read share group state summary: This is not the correct coordinator."
    results = []
    for topic in request.topics:
        partitions = [
            PartitionResult(partition=data.partition, error_code=ErrorCode.NOT_COORDINATOR, error_message=text)
            for data in topic.partitions
        ]
        results.append(ReadStateSummaryResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateSummaryResponse(results=results)
