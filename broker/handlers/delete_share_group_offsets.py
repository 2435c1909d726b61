"""DeleteShareGroupOffsets (92), version 0: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from oncelog.protocol.generated.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse


def handle(_: RequestContext, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    del request
    error = ErrorCode.UNSUPPORTED_VERSION
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.text)
