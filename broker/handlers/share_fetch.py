"""ShareFetch (78), versions 1–2: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_fetch_request import ShareFetchRequest
from oncelog.protocol.generated.share_fetch_response import ShareFetchResponse


def handle(_: RequestContext, request: ShareFetchRequest) -> ShareFetchResponse:
    del request
    return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
