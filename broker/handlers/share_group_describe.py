"""ShareGroupDescribe (77), version 1: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_group_describe_request import ShareGroupDescribeRequest
from oncelog.protocol.generated.share_group_describe_response import DescribedGroup, ShareGroupDescribeResponse


def handle(_: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[
            DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
            for group_id in request.group_ids
        ]
    )
