"""AlterShareGroupOffsets (91), version 0: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_share_group_offsets_request import AlterShareGroupOffsetsRequest
from oncelog.protocol.generated.alter_share_group_offsets_response import AlterShareGroupOffsetsResponse


def handle(_: RequestContext, request: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    del request
    error = ErrorCode.UNSUPPORTED_VERSION
    return AlterShareGroupOffsetsResponse(error_code=error, error_message=error.text)
