"""WriteShareGroupState (85), versions 0–1: NOT_COORDINATOR, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.write_share_group_state_request import WriteShareGroupStateRequest
from oncelog.protocol.generated.write_share_group_state_response import (
    PartitionResult,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(_: RequestContext, request: WriteShareGroupStateRequest) -> WriteShareGroupStateResponse:
    text = "Unable to write share group state: This is not the correct coordinator."
    results = []
    for topic in request.topics:
        partitions = [
            PartitionResult(partition=data.partition, error_code=ErrorCode.NOT_COORDINATOR, error_message=text)
            for data in topic.partitions
        ]
        results.append(WriteStateResult(topic_id=topic.topic_id, partitions=partitions))
    return WriteShareGroupStateResponse(results=results)
