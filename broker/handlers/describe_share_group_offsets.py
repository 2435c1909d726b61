"""DescribeShareGroupOffsets (90), versions 0–1: as Kafka where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_share_group_offsets_request import DescribeShareGroupOffsetsRequest
from oncelog.protocol.generated.describe_share_group_offsets_response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
)


def handle(_: RequestContext, request: DescribeShareGroupOffsetsRequest) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
            for group in request.groups
        ]
    )
