"""The requests about users, and about how much clients may have.

Owns: credentials of SCRAM (KIP-554) and client quotas (KIP-546): the requests, and their values. Does not own: the
public names (`client`, which imports this at the first use). Invariant: no password leaves this process, only what it
is salted to; no repr shows one.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.client.admin.calls import ask_controller
from oncelog.client.values.errors import ConfigError, check_each, error_for, raise_for
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.apis import api_of
from oncelog.client.wire.cluster import Cluster
from oncelog.client.wire.scram import HASHES, MIN_ITERATIONS, salted_password
from oncelog.client.wire.security import ScramMechanism
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    alter_client_quotas_request,
    alter_client_quotas_response,
    alter_user_scram_credentials_request,
    alter_user_scram_credentials_response,
    describe_client_quotas_request,
    describe_client_quotas_response,
    describe_user_scram_credentials_request,
    describe_user_scram_credentials_response,
)
from oncelog.protocol.generated.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog.protocol.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.protocol.generated.describe_client_quotas_request import ComponentData, DescribeClientQuotasRequest
from oncelog.protocol.generated.describe_user_scram_credentials_request import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

_DESCRIBE_CLIENT_QUOTAS = api_of(describe_client_quotas_request, describe_client_quotas_response, 0, 1)
_ALTER_CLIENT_QUOTAS = api_of(alter_client_quotas_request, alter_client_quotas_response, 0, 1)
_DESCRIBE_USER_SCRAM_CREDENTIALS = api_of(
    describe_user_scram_credentials_request, describe_user_scram_credentials_response, 0, 0
)
_ALTER_USER_SCRAM_CREDENTIALS = api_of(
    alter_user_scram_credentials_request, alter_user_scram_credentials_response, 0, 0
)
_MECHANISMS: tuple[ScramMechanism, ...] = ("SCRAM-SHA-256", "SCRAM-SHA-512")
"""The mechanisms in the order of their numbers in the protocol, from 1."""
_SALT_BYTES = 26
"""The size of a salt in Java's client."""
_EXACT, _DEFAULT, _ANY = 0, 1, 2
QuotaEntity = Mapping[str, str | None]
"""The entity of a quota: `{"user": "alice"}`, with "client-id" or without, or `{"ip": "10.0.0.1"}`; None is the default
for all that have none of their own."""


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A user's password, to be made or changed. `iterations` from 4,096 to 16,384."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = "SCRAM-SHA-512"
    iterations: int = 8_192


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A user's credentials of one mechanism, to be deleted."""

    user: str
    mechanism: ScramMechanism = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class ClientQuota:
    """The quotas that are set for one entity: rates by Kafka's names, such as producer_byte_rate."""

    entity: QuotaEntity
    values: Mapping[str, float]


# --- users ------------------------------------------------------------------------------------------------------------


async def alter_users(
    cluster: Cluster,
    alterations: Sequence[UserScramCredentialUpsertion | UserScramCredentialDeletion],
    deadline: Deadline,
) -> None:
    request = await _alterations(alterations)
    response = await ask_controller(cluster, _ALTER_USER_SCRAM_CREDENTIALS, request, deadline)
    for each in response.results:
        raise_for(each.error_code, f"user {each.user!r}: {each.error_message or ''}")


async def _alterations(
    alterations: Sequence[UserScramCredentialUpsertion | UserScramCredentialDeletion],
) -> AlterUserScramCredentialsRequest:
    """Raises ConfigError."""
    deletions, upsertions = [], []
    for each in alterations:
        if isinstance(each, UserScramCredentialDeletion):
            deletions.append(ScramCredentialDeletion(each.user, _number(each.mechanism)))
            continue
        check_each("alter_user_scram_credentials", [each], UserScramCredentialUpsertion)
        number, salt = _number(each.mechanism), os.urandom(_SALT_BYTES)
        if each.iterations < MIN_ITERATIONS or not each.password:
            raise ConfigError(f"user {each.user!r}: a password, and iterations from {MIN_ITERATIONS:,}, are needed")
        hash_name, password = HASHES[each.mechanism], each.password.encode()
        salted = await asyncio.to_thread(salted_password, hash_name, password, salt, each.iterations)
        upsertions.append(ScramCredentialUpsertion(each.user, number, each.iterations, salt, salted))
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def _number(mechanism: ScramMechanism) -> int:
    if mechanism not in _MECHANISMS:
        raise ConfigError(f"mechanism={mechanism!r}: must be one of {', '.join(map(repr, _MECHANISMS))}")
    return _MECHANISMS.index(mechanism) + 1


async def describe_users(cluster: Cluster, users: Sequence[str], deadline: Deadline) -> dict[str, dict[str, int]]:
    check_each("describe_user_scram_credentials", users, str)
    request = DescribeUserScramCredentialsRequest(users=[UserName(name) for name in users] or None)
    response = await ask_controller(cluster, _DESCRIBE_USER_SCRAM_CREDENTIALS, request, deadline)
    raise_for(response.error_code, response.error_message or "")
    found: dict[str, dict[str, int]] = {}
    for each in response.results:
        if each.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        raise_for(each.error_code, f"user {each.user!r}: {each.error_message or ''}")
        found[each.user] = {_MECHANISMS[info.mechanism - 1]: info.iterations for info in each.credential_infos}
    return found


# --- quotas -----------------------------------------------------------------------------------------------------------


async def alter_quotas(
    cluster: Cluster,
    entity: QuotaEntity,
    values: Mapping[str, float | None],
    deadline: Deadline,
    *,
    validate_only: bool,
) -> None:
    ops = [OpData(key, 0.0 if value is None else float(value), value is None) for key, value in values.items()]
    entries = [EntryData([EntityData(kind, name) for kind, name in entity.items()], ops)]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    response = await ask_controller(cluster, _ALTER_CLIENT_QUOTAS, request, deadline)
    for each in response.entries:
        named = ", ".join(f"{part.entity_type} {part.entity_name or 'default'!r}" for part in each.entity)
        raise_for(each.error_code, f"{named}: {each.error_message or ''}")


async def describe_quotas(
    cluster: Cluster, entity: QuotaEntity, any_of: Sequence[str], deadline: Deadline, *, strict: bool
) -> list[ClientQuota]:
    components = [ComponentData(kind, _DEFAULT if name is None else _EXACT, name) for kind, name in entity.items()]
    components += [ComponentData(kind, _ANY, None) for kind in any_of]
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = await cluster.call_any(_DESCRIBE_CLIENT_QUOTAS, request, deadline)
    if response.error_code:
        raise error_for(response.error_code, response.error_message or "")
    return [
        ClientQuota(
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in each.values},
        )
        for each in response.entries or ()
    ]
