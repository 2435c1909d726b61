"""DescribeDelegationToken (41), versions 1–3: the tokens that a client may see, HMACs included (KIP-48, KIP-373).

- Those of which it is owner, requester or renewer; others with DESCRIBE on the token or DESCRIBE_TOKENS on its owner.
- Owners in the request keep those in which one of them has a part; none at all in it (an empty list) selects nothing.
- An expired token is shown until it is removed, as in Kafka.
"""

from oncelog.broker.handlers.rights.checks import may
from oncelog.broker.handlers.shared.token_requests import may_ask, may_see
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.delegation_tokens import principal_of
from oncelog.broker.security.principal import Principal
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.acls import AclOperation, ResourceType
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord
from oncelog.protocol.generated.describe_delegation_token_request import DescribeDelegationTokenRequest
from oncelog.protocol.generated.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)


def handle(context: RequestContext, request: DescribeDelegationTokenRequest) -> Sliced[DescribeDelegationTokenResponse]:
    tokens = context.broker.tokens
    if not may_ask(context.peer):
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if tokens is None:
        return DescribeDelegationTokenResponse(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    wanted: frozenset[str] | None = None
    if request.owners is not None:
        wanted = frozenset(f"{each.principal_type}:{each.principal_name}" for each in request.owners)
    found: list[DescribedDelegationToken] = []
    for token in list(context.broker.metadata.state.security.tokens.values()):
        yield 1
        parts = (token.owner, token.requester, *token.renewers)
        if (wanted is None or not wanted.isdisjoint(parts)) and _may_see(context, token):
            found.append(_described(token, tokens.hmac_of(token.token_id)))
    return DescribeDelegationTokenResponse(tokens=found)


def _may_see(context: RequestContext, token: DelegationTokenRecord) -> bool:
    return (
        may_see(context.peer.principal, token)
        or may(context, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, quietly=True)
        or may(context, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner, quietly=True)
    )


def _described(token: DelegationTokenRecord, token_hmac: bytes) -> DescribedDelegationToken:
    owner, requester = principal_of(token.owner), principal_of(token.requester)
    return DescribedDelegationToken(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[_renewer(principal_of(each)) for each in token.renewers],
    )


def _renewer(principal: Principal) -> DescribedDelegationTokenRenewer:
    return DescribedDelegationTokenRenewer(principal_type=principal.kind, principal_name=principal.name)
