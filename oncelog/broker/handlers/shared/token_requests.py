"""Who may ask about delegation tokens at all, and what a renewal and an expiry have in common.

Owns: these rules, which are Kafka's. Does not own: tokens (`broker.security.delegation_tokens`), rights on the tokens
of others (the handlers).
"""

from oncelog.broker.requests.context import Peer, RequestContext
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord

NO_TIME = -1
"""The time in a response to a request that is refused before tokens are looked at; after that it is 0."""


def may_ask(peer: Peer) -> bool:
    """Whether the client may request a token: not without authentication, and not by a token, which would renew itself
    for ever."""
    if peer.login is not None:
        return not peer.login.is_by_token
    return peer.principal != ANONYMOUS


def may_change(principal: Principal, token: DelegationTokenRecord) -> bool:
    """Whether the principal is the token's owner or a renewer; another one that requested it may not change it."""
    return str(principal) in (token.owner, *token.renewers)


def may_see(principal: Principal, token: DelegationTokenRecord) -> bool:
    """Whether the principal may see the token without a right to see those of others."""
    return may_change(principal, token) or str(principal) == token.requester


def find(context: RequestContext, token_hmac: bytes) -> DelegationTokenRecord | ErrorCode:
    """Return the token that a request names, perhaps an expired one, or why there is none."""
    tokens = context.broker.tokens
    if tokens is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    return tokens.find(bytes(token_hmac)) or ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def until(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    """Return the record of the same token with this expiry."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
    )
