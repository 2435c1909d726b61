"""ShareGroupHeartbeat (76), version 1: UNSUPPORTED_VERSION, Kafka's answer where `share.version` is 0 (KIP-932)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from oncelog.protocol.generated.share_group_heartbeat_response import ShareGroupHeartbeatResponse


def handle(_: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    del request
    return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
