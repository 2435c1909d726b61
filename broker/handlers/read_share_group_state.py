"""ReadShareGroupState (84), version 0: NOT_COORDINATOR, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.read_share_group_state_request import ReadShareGroupStateRequest
from oncelog.protocol.generated.read_share_group_state_response import (
    PartitionResult,
    ReadShareGroupStateResponse,
    ReadStateResult,
)


def handle(_: RequestContext, request: ReadShareGroupStateRequest) -> ReadShareGroupStateResponse:
    text = "Unable to read share group state: This is not the correct coordinator."
    results = []
    for topic in request.topics:
        partitions = [
            PartitionResult(partition=data.partition, error_code=ErrorCode.NOT_COORDINATOR, error_message=text)
            for data in topic.partitions
        ]
        results.append(ReadStateResult(topic_id=topic.topic_id, partitions=partitions))
    return ReadShareGroupStateResponse(results=results)
