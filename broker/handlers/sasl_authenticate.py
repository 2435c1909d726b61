"""SaslAuthenticate (36), versions 0–2: ILLEGAL_SASL_STATE, Kafka's answer on a listener without SASL."""

from broker.dispatch import RequestContext
from protocol.errors import ErrorCode
from protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from protocol.generated.sasl_authenticate_response import SaslAuthenticateResponse


def handle(_: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    del request
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
