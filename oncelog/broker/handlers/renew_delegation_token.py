"""RenewDelegationToken (39), versions 1–2: a token counts on, from now, for the time that is asked for (KIP-48).

- At most for `delegation.token.expiry.time.ms`, which is also meant by 0 and less, and never beyond its lifetime.
- Only its owner and its renewers may: DELEGATION_TOKEN_OWNER_MISMATCH. An expired one is DELEGATION_TOKEN_EXPIRED until
  it is removed. The response is sent once durable.
"""

from oncelog.broker.handlers.shared.token_requests import NO_TIME, find, may_ask, may_change, until
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.delegation_tokens import has_expired
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.renew_delegation_token_request import RenewDelegationTokenRequest
from oncelog.protocol.generated.renew_delegation_token_response import RenewDelegationTokenResponse


def handle(
    context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse | Completion[RenewDelegationTokenResponse]:
    if not may_ask(context.peer):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    broker = context.broker
    token = find(context, request.hmac)
    if isinstance(token, ErrorCode):
        return RenewDelegationTokenResponse(token)
    if has_expired(token, broker.clock.wall_ms()):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    if not may_change(context.peer.principal, token):
        return RenewDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    period_ms = broker.config.get_int("delegation.token.expiry.time.ms")
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    renewed = until(token, min(token.max_timestamp, broker.clock.wall_ms() + period_ms))
    response = RenewDelegationTokenResponse(expiry_timestamp_ms=renewed.expiration_timestamp)
    return broker.metadata.write([renewed]).map(
        lambda _: response, lambda error: RenewDelegationTokenResponse(error.code)
    )
