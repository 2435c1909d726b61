"""SaslHandshake (17), versions 0–1: which mechanism a login is to use (KIP-43).

- Version 0: tokens follow as frames of their own. Version 1: in SaslAuthenticate (KIP-152).
- A mechanism that is not enabled: UNSUPPORTED_SASL_MECHANISM with those that are, after
  `connection.failed.authentication.delay.ms`; then the connection is closed.
- After a login it begins another one, if sessions end (KIP-368) and the last began a second ago.
- On a listener without SASL, and at any other time: ILLEGAL_SASL_STATE.
"""

from oncelog.broker.requests.context import RequestContext
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.sasl_handshake_request import SaslHandshakeRequest
from oncelog.protocol.generated.sasl_handshake_response import SaslHandshakeResponse


def handle(
    context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse | Completion[SaslHandshakeResponse]:
    login = context.peer.login
    if login is None or not login.takes_handshake:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    response = SaslHandshakeResponse(mechanisms=login.mechanisms)
    if login.on_handshake(request.mechanism, context.api_version):
        return response
    refusal = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=login.mechanisms)
    return login.delayed(refusal)
