"""StreamsGroupDescribe (89), version 0: UNSUPPORTED_VERSION, Kafka's answer where `streams.version` is 0 (KIP-1071)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.streams_group_describe_request import StreamsGroupDescribeRequest
from oncelog.protocol.generated.streams_group_describe_response import DescribedGroup, StreamsGroupDescribeResponse


def handle(_: RequestContext, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
            for group_id in request.group_ids
        ]
    )
