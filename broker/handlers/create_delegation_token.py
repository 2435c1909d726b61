"""CreateDelegationToken (38), versions 1–3: not allowed, as in Kafka on a listener without authentication."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_delegation_token_request import CreateDelegationTokenRequest
from oncelog.protocol.generated.create_delegation_token_response import CreateDelegationTokenResponse


def handle(_: RequestContext, request: CreateDelegationTokenRequest) -> CreateDelegationTokenResponse:
    # Without authentication the requester is User:ANONYMOUS, which is also the default owner.
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type=request.owner_principal_type or "User",
        principal_name=request.owner_principal_name or "ANONYMOUS",
        token_requester_principal_type="User",
        token_requester_principal_name="ANONYMOUS",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
