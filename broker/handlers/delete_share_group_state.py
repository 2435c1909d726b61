"""DeleteShareGroupState (86), version 0: NOT_COORDINATOR, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_share_group_state_request import DeleteShareGroupStateRequest
from oncelog.protocol.generated.delete_share_group_state_response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(_: RequestContext, request: DeleteShareGroupStateRequest) -> DeleteShareGroupStateResponse:
    text = "Unable to delete share group state: This is not the correct coordinator."
    results = []
    for topic in request.topics:
        partitions = [
            PartitionResult(partition=data.partition, error_code=ErrorCode.NOT_COORDINATOR, error_message=text)
            for data in topic.partitions
        ]
        results.append(DeleteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return DeleteShareGroupStateResponse(results=results)
