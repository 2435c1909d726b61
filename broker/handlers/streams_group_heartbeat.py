"""StreamsGroupHeartbeat (88), version 0: as Kafka where `streams.version` is 0 (KIP-1071)."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from oncelog.protocol.generated.streams_group_heartbeat_response import StreamsGroupHeartbeatResponse


def handle(_: RequestContext, request: StreamsGroupHeartbeatRequest) -> StreamsGroupHeartbeatResponse:
    del request
    return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, status=())
