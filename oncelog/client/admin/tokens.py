"""The requests about delegation tokens (KIP-48, KIP-373).

Owns: the requests, and their errors as exceptions. Does not own: the public names (`client`, which imports this at the
first use), the token as a value (`descriptions`), logging in with one (`wire.sasl`). Invariant: an HMAC, which is the
password of its token, is text in base64 everywhere but on the wire, and in no error.
"""

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.client.admin.calls import ask_controller
from oncelog.client.admin.descriptions import DelegationToken
from oncelog.client.values.errors import ConfigError, check_each, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.protocol.generated import (
    create_delegation_token_request,
    create_delegation_token_response,
    describe_delegation_token_request,
    describe_delegation_token_response,
    expire_delegation_token_request,
    expire_delegation_token_response,
    renew_delegation_token_request,
    renew_delegation_token_response,
)
from oncelog.protocol.generated.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.protocol.generated.create_delegation_token_response import CreateDelegationTokenResponse
from oncelog.protocol.generated.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.protocol.generated.describe_delegation_token_response import DescribeDelegationTokenResponse
from oncelog.protocol.generated.expire_delegation_token_request import ExpireDelegationTokenRequest
from oncelog.protocol.generated.renew_delegation_token_request import RenewDelegationTokenRequest

_CREATE_DELEGATION_TOKEN = api_of(create_delegation_token_request, create_delegation_token_response, 1, 3)
_RENEW_DELEGATION_TOKEN = api_of(renew_delegation_token_request, renew_delegation_token_response, 1, 2)
_EXPIRE_DELEGATION_TOKEN = api_of(expire_delegation_token_request, expire_delegation_token_response, 1, 2)
_DESCRIBE_DELEGATION_TOKEN = api_of(describe_delegation_token_request, describe_delegation_token_response, 1, 3)


async def create(
    cluster: Cluster, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int, deadline: Deadline
) -> DelegationToken:
    request = creation_request(owner, renewers, max_lifetime_ms)
    return created(await ask_controller(cluster, _CREATE_DELEGATION_TOKEN, request, deadline), renewers)


async def renew(cluster: Cluster, hmac: str, renew_period_ms: int, deadline: Deadline) -> int:
    request = renewal_request(hmac, renew_period_ms)
    return _expiry(await ask_controller(cluster, _RENEW_DELEGATION_TOKEN, request, deadline))


async def expire(cluster: Cluster, hmac: str, expiry_period_ms: int, deadline: Deadline) -> int:
    request = ExpireDelegationTokenRequest(hmac=_bytes(hmac), expiry_time_period_ms=expiry_period_ms)
    return _expiry(await ask_controller(cluster, _EXPIRE_DELEGATION_TOKEN, request, deadline))


async def describe(cluster: Cluster, owners: Sequence[str], deadline: Deadline) -> list[DelegationToken]:
    check_each("describe_delegation_tokens", owners, str)
    return described(await cluster.call_any(_DESCRIBE_DELEGATION_TOKEN, description_request(owners), deadline))


def creation_request(owner: str | None, renewers: Sequence[str], max_lifetime_ms: int) -> CreateDelegationTokenRequest:
    """Raises ConfigError for what is no principal."""
    kind, name = (None, None) if owner is None else _principal(owner)
    return CreateDelegationTokenRequest(
        owner_principal_type=kind,
        owner_principal_name=name,
        renewers=[CreatableRenewers(*_principal(each)) for each in _list("renewers", renewers)],
        max_lifetime_ms=max_lifetime_ms,
    )


def created(response: CreateDelegationTokenResponse, renewers: Sequence[str]) -> DelegationToken:
    raise_for(response.error_code)
    return DelegationToken(
        token_id=response.token_id,
        hmac=b64encode(response.hmac).decode(),
        owner=f"{response.principal_type}:{response.principal_name}",
        requester=_requester(response),
        renewers=tuple(renewers),
        issue_time_ms=response.issue_timestamp_ms,
        expiry_time_ms=response.expiry_timestamp_ms,
        max_time_ms=response.max_timestamp_ms,
    )


def renewal_request(hmac: str, renew_period_ms: int) -> RenewDelegationTokenRequest:
    """Raises ConfigError for what is not base64."""
    return RenewDelegationTokenRequest(hmac=_bytes(hmac), renew_period_ms=renew_period_ms)


def _expiry(response: Any) -> int:
    """The expiry in the response to a renewal or an expiry."""
    raise_for(response.error_code)
    expiry_time_ms: int = response.expiry_timestamp_ms
    return expiry_time_ms


def description_request(owners: Iterable[str]) -> DescribeDelegationTokenRequest:
    """Raises ConfigError for what is no principal."""
    wanted = [DescribeDelegationTokenOwner(*_principal(each)) for each in owners]
    return DescribeDelegationTokenRequest(owners=wanted or None)


def described(response: DescribeDelegationTokenResponse) -> list[DelegationToken]:
    raise_for(response.error_code)
    found = [
        DelegationToken(
            token_id=each.token_id,
            hmac=b64encode(each.hmac).decode(),
            owner=f"{each.principal_type}:{each.principal_name}",
            requester=_requester(each),
            renewers=tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
            issue_time_ms=each.issue_timestamp,
            expiry_time_ms=each.expiry_timestamp,
            max_time_ms=each.max_timestamp,
        )
        for each in response.tokens
    ]
    return sorted(found, key=lambda each: (each.owner, each.issue_time_ms, each.token_id))


def _requester(response: Any) -> str:
    """Return the requester of a token; the owner where the broker is older than the difference (KIP-373)."""
    if not response.token_requester_principal_type:
        return f"{response.principal_type}:{response.principal_name}"
    return f"{response.token_requester_principal_type}:{response.token_requester_principal_name}"


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ConfigError(f"{text!r} is no principal", hint=f"User:{text}")
    return kind, name


def _list(option: str, names: Sequence[str]) -> Sequence[str]:
    if isinstance(names, str):
        raise ConfigError(f"{option}={names!r}: must be a list of principals", hint=f"{option}=[{names!r}]")
    return names


def _bytes(hmac: str) -> bytes:
    try:
        return b64decode(hmac, validate=True)
    except (NotBase64, ValueError):
        raise ConfigError("this HMAC is not base64", hint="DelegationToken.hmac is the text to pass") from None
