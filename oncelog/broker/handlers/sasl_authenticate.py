"""SaslAuthenticate (36), versions 0–2: one token of a login (KIP-152).

- A failed login: SASL_AUTHENTICATION_FAILED with a text that gives no help to guess, after
  `connection.failed.authentication.delay.ms`; then the connection is closed.
- v1+ the last response says how long the session lasts (KIP-368): `connections.max.reauth.ms`, or less where what the
  client proved itself by expires earlier; 0: without an end.
- On a listener without SASL, and at any other time than after SaslHandshake v1: ILLEGAL_SASL_STATE.
"""

from oncelog.broker.requests.context import LoginStep, RequestContext
from oncelog.broker.security.mechanisms import AuthenticationFailed
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.sasl_authenticate_request import SaslAuthenticateRequest
from oncelog.protocol.generated.sasl_authenticate_response import SaslAuthenticateResponse

_TOO_LATE = "SaslAuthenticate request received after successful authentication"


def handle(
    context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse | Completion[SaslAuthenticateResponse]:
    login = context.peer.login
    if login is None or not login.takes_token:
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=_TOO_LATE)
    try:
        step = login.evaluate(bytes(request.auth_bytes))
    except AuthenticationFailed as failure:
        return login.delayed(_refusal(failure))
    if not isinstance(step, Completion):
        return SaslAuthenticateResponse(auth_bytes=step.token, session_lifetime_ms=step.session_ms)
    response: Completion[SaslAuthenticateResponse] = Completion()

    def on_step(known: Completion[LoginStep]) -> None:
        if isinstance(known.error, AuthenticationFailed):
            login.delayed(_refusal(known.error)).then(lambda delayed: response.complete(delayed.result()))
        elif known.error is not None:
            response.fail(known.error)
        else:
            token, session_ms = known.result()
            response.complete(SaslAuthenticateResponse(auth_bytes=token, session_lifetime_ms=session_ms))

    step.then(on_step)
    return response


def _refusal(failure: AuthenticationFailed) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(failure))
