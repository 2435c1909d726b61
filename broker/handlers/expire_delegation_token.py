"""ExpireDelegationToken (40), versions 1–2: not allowed, Kafka's answer on a listener without authentication."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from oncelog.protocol.generated.expire_delegation_token_response import ExpireDelegationTokenResponse


def handle(_: RequestContext, request: ExpireDelegationTokenRequest) -> ExpireDelegationTokenResponse:
    del request
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
