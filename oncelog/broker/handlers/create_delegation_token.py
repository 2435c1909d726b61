"""CreateDelegationToken (38), versions 1–3: a token by which others log in as its owner (KIP-48, KIP-373).

- Of the client itself, or of the owner that the request names: that needs CREATE_TOKENS on the user. The client stays
  its requester.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED without authentication and over a login by a token;
  DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- It counts for the lifetime that is asked for, at most `delegation.token.max.lifetime.ms`; at first for
  `delegation.token.expiry.time.ms`, until it is renewed. The response is sent once durable.
- An owner that is no user is INVALID_PRINCIPAL_TYPE, as renewers are: its token would log in as the user of that name.
  Kafka makes it.
"""

from oncelog.broker.handlers.rights.checks import may
from oncelog.broker.handlers.shared.token_requests import NO_TIME, may_ask
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.principal import Principal
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_delegation_token_request import CreateDelegationTokenRequest
from oncelog.protocol.generated.create_delegation_token_response import CreateDelegationTokenResponse
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord

_USER = "User"


def handle(
    context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse | Completion[CreateDelegationTokenResponse]:
    requester = context.peer.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or _USER, request.owner_principal_name)
    refusal = _refusal(context, request, owner)
    if refusal is not None:
        return _response(owner, requester, error_code=refusal, times=(NO_TIME, NO_TIME, NO_TIME))
    broker = context.broker
    tokens, config = broker.tokens, broker.config
    if tokens is None:
        return _response(owner, requester, error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wall_ms = broker.clock.wall_ms()
    lifetime_ms = config.get_int("delegation.token.max.lifetime.ms")
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=[f"{each.principal_type}:{each.principal_name}" for each in request.renewers],
        issue_timestamp=wall_ms,
        max_timestamp=wall_ms + lifetime_ms,
        expiration_timestamp=wall_ms + min(lifetime_ms, config.get_int("delegation.token.expiry.time.ms")),
        token_id=tokens.new_id(),
    )
    response = _response(
        owner,
        requester,
        times=(record.issue_timestamp, record.expiration_timestamp, record.max_timestamp),
        token_id=record.token_id,
        hmac=tokens.hmac_of(record.token_id),
    )
    return broker.metadata.write([record]).map(
        lambda _: response, lambda error: _response(owner, requester, error_code=error.code)
    )


def _refusal(context: RequestContext, request: CreateDelegationTokenRequest, owner: Principal) -> ErrorCode | None:
    """Return the error by Kafka's order of checks."""
    if not may_ask(context.peer):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if owner != context.peer.principal and not may(context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    if owner.kind != _USER or any(each.principal_type != _USER for each in request.renewers):
        return ErrorCode.INVALID_PRINCIPAL_TYPE
    return None


def _response(
    owner: Principal,
    requester: Principal,
    *,
    error_code: ErrorCode = ErrorCode.NONE,
    times: tuple[int, int, int] = (0, 0, 0),
    token_id: str = "",
    hmac: bytes = b"",
) -> CreateDelegationTokenResponse:
    issue_ms, expiry_ms, max_ms = times
    return CreateDelegationTokenResponse(
        error_code=error_code,
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=issue_ms,
        expiry_timestamp_ms=expiry_ms,
        max_timestamp_ms=max_ms,
        token_id=token_id,
        hmac=hmac,
    )
