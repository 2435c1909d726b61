"""ExpireDelegationToken (40), versions 1–2: a token counts for so long from now, or is removed at once (KIP-48).

- A negative period removes it, even an expired one; any other ends it then, not beyond its lifetime. Connections that
  have logged in by it stay until their sessions end.
- Only its owner and its renewers may: DELEGATION_TOKEN_OWNER_MISMATCH, before anything else is looked at. The response
  is sent once durable.
"""

from oncelog.broker.handlers.shared.token_requests import NO_TIME, find, may_ask, may_change, until
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.delegation_tokens import has_expired
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from oncelog.protocol.generated.expire_delegation_token_response import ExpireDelegationTokenResponse
from oncelog.protocol.generated.remove_delegation_token_record import RemoveDelegationTokenRecord


def handle(
    context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse | Completion[ExpireDelegationTokenResponse]:
    if not may_ask(context.peer):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, NO_TIME)
    broker, period_ms = context.broker, request.expiry_time_period_ms
    token = find(context, request.hmac)
    if isinstance(token, ErrorCode):
        return ExpireDelegationTokenResponse(token)
    if not may_change(context.peer.principal, token):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    wall_ms = broker.clock.wall_ms()
    if period_ms < 0:
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=wall_ms)
        written = broker.metadata.write([RemoveDelegationTokenRecord(token_id=token.token_id)])
    elif has_expired(token, wall_ms):
        return ExpireDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_EXPIRED)
    else:
        ended = until(token, min(token.max_timestamp, wall_ms + period_ms))
        response = ExpireDelegationTokenResponse(expiry_timestamp_ms=ended.expiration_timestamp)
        written = broker.metadata.write([ended])
    return written.map(lambda _: response, lambda error: ExpireDelegationTokenResponse(error.code))
