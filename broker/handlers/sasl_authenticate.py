"""SaslAuthenticate (36), versions 0–2: ILLEGAL_SASL_STATE, Kafka's answer on a listener without SASL."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_authenticate_response import SaslAuthenticateResponse


def handle(_: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    del request
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
