"""DeleteShareGroupOffsets (92), version 0: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from protocol.generated.delete_share_group_offsets_response import DeleteShareGroupOffsetsResponse


def handle(_: RequestContext, request: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    del request
    error = ErrorCode.UNSUPPORTED_VERSION
    return DeleteShareGroupOffsetsResponse(error_code=error, error_message=error.text)
