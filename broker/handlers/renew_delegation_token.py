"""RenewDelegationToken (39), versions 1–2: not allowed, Kafka's answer on a listener without authentication."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from oncelog.protocol.generated.renew_delegation_token_response import RenewDelegationTokenResponse


def handle(_: RequestContext, request: RenewDelegationTokenRequest) -> RenewDelegationTokenResponse:
    del request
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
