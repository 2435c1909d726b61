"""DescribeDelegationToken (41), versions 1–3: not allowed, Kafka's answer on a listener without authentication."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_delegation_token_request import DescribeDelegationTokenRequest
from oncelog.protocol.generated.describe_delegation_token_response import DescribeDelegationTokenResponse


def handle(_: RequestContext, request: DescribeDelegationTokenRequest) -> DescribeDelegationTokenResponse:
    del request
    return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
