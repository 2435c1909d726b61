"""ShareAcknowledge (79), versions 1–2: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_acknowledge_request import ShareAcknowledgeRequest
from oncelog.protocol.generated.share_acknowledge_response import ShareAcknowledgeResponse


def handle(_: RequestContext, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    del request
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
