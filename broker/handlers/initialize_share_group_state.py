"""InitializeShareGroupState (83), version 0: NOT_COORDINATOR, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.initialize_share_group_state_request import InitializeShareGroupStateRequest
from oncelog.protocol.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


def handle(_: RequestContext, request: InitializeShareGroupStateRequest) -> InitializeShareGroupStateResponse:
    text = "Unable to initialize share group state: This is not the correct coordinator."
    results = []
    for topic in request.topics:
        partitions = [
            PartitionResult(partition=data.partition, error_code=ErrorCode.NOT_COORDINATOR, error_message=text)
            for data in topic.partitions
        ]
        results.append(InitializeStateResult(topic_id=topic.topic_id, partitions=partitions))
    return InitializeShareGroupStateResponse(results=results)
