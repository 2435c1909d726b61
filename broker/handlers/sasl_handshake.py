"""SaslHandshake (17), versions 0–1: ILLEGAL_SASL_STATE, Kafka's answer on a listener without SASL.

Listed from version 0 on: librdkafka takes that as the sign that a broker knows SASL at all.
"""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from oncelog.protocol.generated.sasl_handshake_response import SaslHandshakeResponse


def handle(_: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    del request
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
