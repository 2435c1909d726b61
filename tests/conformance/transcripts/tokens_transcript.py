"""A conversation about delegation tokens with a broker that has an authorizer (KIP-48, KIP-373): who gets them, sees
them, changes them and logs in with them.

Owns: the questions, and which part of an answer counts: of a time, how far it is from now, in steps of 50 seconds; of
ids and HMACs, whether they fit together. Alice may do everything, bob has the rights that alice gives him, carol never
logs in by herself. Kafka's broker learns of a change a moment after its controller.
"""

import hashlib
import hmac
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, Protocol

from oncelog.protocol.acls import AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.message import Message
from tests.clients.asking import Told, name, request

ALICE, BOB, CAROL = "alice", "bob", "carol"
SECRET = "secret of the transcript"
RENEWAL_MS, LIFETIME_MS = 1_000_000, 10_000_000
AUTHORIZER = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer"
WITHOUT_KEY = (AUTHORIZER, f"super.users=User:{ALICE};User:ANONYMOUS")
"""Kafka's broker is ANONYMOUS to its controller."""
SETTINGS = (
    *WITHOUT_KEY,
    f"delegation.token.secret.key={SECRET}",
    f"delegation.token.expiry.time.ms={RENEWAL_MS}",
    f"delegation.token.max.lifetime.ms={LIFETIME_MS}",
)
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PERIODS_MS = (-1, 0, 1, 500_000, RENEWAL_MS + 100_000, LIFETIME_MS + 100_000, 2**63 - 1)
_STEP_MS, _SHORT_MS = 50_000, 1_500
_PAUSE_MS, _PATIENCE, _RULE_PAUSE_MS = 20, 500, 500
_CREATIONS: Mapping[str, Any] = {
    "own, by name": {"owner": ALICE},
    "own, of an empty name": {"owner": ""},
    "for another": {"owner": CAROL, "lifetime_ms": _SHORT_MS},
    "a renewer twice": {"renewers": ("User:carol", "User:carol")},
    "a renewer without a name": {"renewers": ("User:",)},
}
"""Tokens to create. The requester cannot end the token for another owner: it stays, and has expired."""


class Clients(Protocol):
    def ask(self, request: Message, version: int, who: str) -> Any:
        """The answer to a user who has logged in, or to the login of this name; None if the connection is closed."""

    def log_in(self, name: str, mechanism: str, token_id: str, token_hmac: bytes, *, is_token: bool) -> Any:
        """The last answer to a login by SCRAM."""

    def now_ms(self) -> int: ...

    def let_pass(self, delay_ms: int) -> None: ...


_USERS_ONLY = "a token of Group:x would log in as User:x"
_FAILED = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
DIFFERENCES: Mapping[str, tuple[str, object]] = {
    f"create: of an owner that is a {kind}": (_USERS_ONLY, ("INVALID_PRINCIPAL_TYPE", f"{kind}:carol", "User:alice"))
    for kind in ("Group", "Planet")
} | {
    "create: own, without a type": (
        "Kafka fails over the missing type of a principal",
        ("NONE", "User:alice", "User:alice", RENEWAL_MS, LIFETIME_MS, (22, True)),
    ),
    "login: of an expired one": (
        "an expired token does not log in, whether it was removed or not",
        ("SASL_AUTHENTICATION_FAILED", _FAILED.format("SCRAM-SHA-256")),
    ),
}


def conversation(clients: Clients) -> Told:
    """Every question and its answer; the broker must be fresh."""
    yield from chain(_creations(clients), _renewals(clients), _expiries(clients), _descriptions(clients))
    yield from _logins(clients)


def without_key(clients: Clients) -> Told:
    """Requests to a broker without delegation.token.secret.key."""
    yield from _refused(clients, "switched off", ALICE)


# --- requests ---------------------------------------------------------------------------------------------------------


def create(
    clients: Clients,
    who: str = ALICE,
    *,
    owner: str | None = None,
    kind: str | None = "User",
    renewers: tuple[str, ...] = (),
    lifetime_ms: int = -1,
    version: int = 3,
) -> Any:
    asked = request(
        "CreateDelegationToken",
        owner_principal_type=kind if owner is not None else None,
        owner_principal_name=owner,
        renewers=[tuple(each.split(":")) for each in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    made = clients.ask(asked, version, who)
    if not made.error_code:
        _settle(clients, lambda known: made.hmac in known)
    return made


def _settle(clients: Clients, is_known: Callable[[Mapping[bytes, int]], bool]) -> None:
    """Wait until the broker describes what its controller has answered; `is_known` is asked about expiries by HMAC."""
    for _ in range(_PATIENCE):
        tokens = clients.ask(request("DescribeDelegationToken", owners=None), 3, ALICE).tokens
        if is_known({each.hmac: each.expiry_timestamp for each in tokens}):
            break
        clients.let_pass(_PAUSE_MS)
    clients.let_pass(_PAUSE_MS)


def _created(made: Any) -> Any:
    """Exact: both times are counted from one moment."""
    owner = f"{made.principal_type}:{made.principal_name}"
    requester = f"{made.token_requester_principal_type}:{made.token_requester_principal_name}"
    said = (name(made.error_code), owner, requester)
    if made.error_code:
        return said
    started_ms = made.issue_timestamp_ms
    return (
        *said,
        made.expiry_timestamp_ms - started_ms,
        made.max_timestamp_ms - started_ms,
        (len(made.token_id), _fits(made)),
    )


def _changed(clients: Clients, asked: Any, who: str, version: int, *, ends: bool = False) -> Any:
    answer = clients.ask(asked, version, who)
    now_ms, expiry_ms = clients.now_ms(), answer.expiry_timestamp_ms
    if not answer.error_code:
        _settle(clients, lambda known: known.get(asked.hmac) == (None if ends else expiry_ms))
    return name(answer.error_code), expiry_ms if expiry_ms <= 0 else _steps(expiry_ms - now_ms)


def renew(clients: Clients, token_hmac: bytes, period_ms: int = -1, who: str = ALICE, version: int = 2) -> Any:
    return _changed(clients, request("RenewDelegationToken", hmac=token_hmac, renew_period_ms=period_ms), who, version)


def expire(clients: Clients, token_hmac: bytes, period_ms: int = -1, who: str = ALICE, version: int = 2) -> Any:
    asked = request("ExpireDelegationToken", hmac=token_hmac, expiry_time_period_ms=period_ms)
    return _changed(clients, asked, who, version, ends=period_ms < 0)


def describe(clients: Clients, who: str, *owners: str, version: int = 3, none: bool = False) -> Any:
    wanted = [tuple(each.split(":")) for each in owners]
    asked = request("DescribeDelegationToken", owners=wanted if owners or none else None)
    answer = clients.ask(asked, version, who)
    now_ms = clients.now_ms()
    found = [(*_who(each), *_times(each, now_ms), _fits(each)) for each in answer.tokens]
    return name(answer.error_code), sorted(found)


def _who(token: Any) -> tuple[str, str, list[str]]:
    """Owner, requester and renewers."""
    renewers = sorted(f"{one.principal_type}:{one.principal_name}" for one in token.renewers)
    requester = f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    return f"{token.principal_type}:{token.principal_name}", requester, renewers


def _times(token: Any, now_ms: int) -> tuple[int, int]:
    return _steps(token.expiry_timestamp - now_ms), _steps(token.max_timestamp - now_ms)


def _fits(token: Any) -> bool:
    hmac_of_id: bytes = hmac.digest(SECRET.encode(), token.token_id.encode(), hashlib.sha512)
    return bool(token.hmac == hmac_of_id)


def _steps(delay_ms: int) -> int:
    return max(0, round(delay_ms / _STEP_MS))


def _allow(clients: Clients, operation: AclOperation, kind: ResourceType, of: str) -> None:
    """Allow bob an operation."""
    rule = (kind, of, PatternType.LITERAL, f"User:{BOB}", "*", operation, Permission.ALLOW)
    clients.ask(request("CreateAcls", creations=[rule]), 3, ALICE)
    clients.let_pass(_RULE_PAUSE_MS)


# --- questions --------------------------------------------------------------------------------------------------------


def _refused(clients: Clients, why: str, who: str) -> Told:
    """The answers to a user that may ask nothing about tokens, in every version."""
    for version in (1, 2, 3):
        yield f"{why}: create, version {version}", _created(create(clients, who, version=version))
        yield f"{why}: describe, version {version}", describe(clients, who, version=version)
    for version in (1, 2):
        yield f"{why}: renew, version {version}", renew(clients, b"unknown", who=who, version=version)
        yield f"{why}: expire, version {version}", expire(clients, b"unknown", who=who, version=version)


def _creations(clients: Clients) -> Told:
    for version in (1, 2, 3):
        made = create(clients, BOB, renewers=("User:carol",), version=version)
        yield f"create: own, version {version}", _created(made)
        expire(clients, made.hmac, who=BOB)
    for period_ms in _PERIODS_MS:
        made = create(clients, lifetime_ms=period_ms)
        yield f"create: for {period_ms} ms", _created(made)
        expire(clients, made.hmac)
    for what, options in _CREATIONS.items():
        made = create(clients, **options)
        yield f"create: {what}", _created(made)
        if "renewers" not in options:
            yield f"create: {what}, seen", describe(clients, ALICE)
        yield f"create: {what}, ended by its requester", expire(clients, made.hmac)[0]
    for kind in ("Group", "Planet"):
        made = create(clients, owner=CAROL, kind=kind, renewers=(f"User:{ALICE}",))
        yield f"create: of an owner that is a {kind}", _created(made)
        expire(clients, made.hmac)
    made = create(clients, owner=ALICE, kind=None)
    yield "create: own, without a type", _created(made)
    expire(clients, made.hmac)
    yield "create: a renewer that is no user", _created(create(clients, renewers=("Group:carol",)))
    yield "create: for another without a right", _created(create(clients, BOB, owner=CAROL))
    _allow(clients, AclOperation.CREATE_TOKENS, ResourceType.USER, f"User:{CAROL}")
    made = create(clients, BOB, owner=CAROL, renewers=(f"User:{BOB}",))
    yield "create: for another with the right", _created(made)
    yield "create: for another with the right, seen by its requester", describe(clients, BOB)
    yield "create: for another, renewed by a requester who is a renewer", renew(clients, made.hmac, who=BOB)
    yield "create: for another, ended by a requester who is a renewer", expire(clients, made.hmac, who=BOB)[0]


def _renewals(clients: Clients) -> Told:
    made = create(clients, renewers=(f"User:{BOB}",))
    alone = create(clients)
    for period_ms in _PERIODS_MS:
        yield f"renew: for {period_ms} ms", renew(clients, made.hmac, period_ms)
        renew(clients, made.hmac)  # one of a millisecond would have expired
        if period_ms == 1:
            yield "renew: after it has expired", renew(clients, made.hmac)
            expire(clients, made.hmac)
            made = create(clients, renewers=(f"User:{BOB}",))
    yield "renew: by a renewer", renew(clients, made.hmac, who=BOB)
    yield "renew: by a stranger", renew(clients, alone.hmac, who=BOB)
    yield "renew: unknown", renew(clients, b"unknown")
    yield "renew: nothing", renew(clients, b"")
    for version in (1, 2):
        yield f"renew: version {version}", renew(clients, made.hmac, version=version)
    expire(clients, made.hmac)
    expire(clients, alone.hmac)
    short = create(clients, lifetime_ms=_SHORT_MS, renewers=(f"User:{BOB}",))
    yield "renew: beyond its lifetime", renew(clients, short.hmac)
    clients.let_pass(_SHORT_MS + _PAUSE_MS)
    yield "renew: an expired one", renew(clients, short.hmac)
    yield "renew: an expired one by a stranger", renew(clients, short.hmac, who=BOB)
    expire(clients, short.hmac)


def _expiries(clients: Clients) -> Told:
    for period_ms in _PERIODS_MS:
        made = create(clients, renewers=(f"User:{BOB}",))
        yield f"expire: in {period_ms} ms", expire(clients, made.hmac, period_ms)
        yield f"expire: in {period_ms} ms, seen", describe(clients, ALICE)
        yield f"expire: in {period_ms} ms, then at once by a renewer", expire(clients, made.hmac, who=BOB)[0]
    alone = create(clients)
    yield "expire: by a stranger", expire(clients, alone.hmac, who=BOB)
    yield "expire: unknown", expire(clients, b"unknown")
    yield "expire: nothing", expire(clients, b"")
    yield "expire: version 1", expire(clients, alone.hmac, version=1)[0]
    short = create(clients, lifetime_ms=_SHORT_MS)
    clients.let_pass(_SHORT_MS + _PAUSE_MS)
    yield "expire: an expired one, later", expire(clients, short.hmac, 1_000)
    yield "expire: an expired one by a stranger", expire(clients, short.hmac, who=BOB)
    yield "expire: an expired one, seen", describe(clients, ALICE)
    yield "expire: an expired one, at once", expire(clients, short.hmac)[0]


def _descriptions(clients: Clients) -> Told:
    made = [
        create(clients, BOB),
        create(clients, ALICE, renewers=(f"User:{BOB}",)),
        create(clients, ALICE, owner=CAROL),
        create(clients, ALICE),
    ]
    for who in (ALICE, BOB):
        for owners in ((), (f"User:{ALICE}",), (f"User:{BOB}", f"User:{CAROL}"), ("User:eve",), (f"Group:{ALICE}",)):
            yield f"describe: {who} asks for {owners}", describe(clients, who, *owners)
        for version in (1, 2):
            yield f"describe: {who}, version {version}", describe(clients, who, version=version)
        yield f"describe: {who} asks for none", describe(clients, who, none=True)
    _allow(clients, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, made[3].token_id)
    yield "describe: with a right on a token", describe(clients, BOB)
    _allow(clients, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, f"User:{CAROL}")
    yield "describe: with a right on a user", describe(clients, BOB)
    yield "describe: with a right on a user, for it", describe(clients, BOB, f"User:{CAROL}")
    for each, who in zip(made, (BOB, ALICE, ALICE, ALICE), strict=True):
        expire(clients, each.hmac, who=who)


def _logins(clients: Clients) -> Told:
    made = create(clients, BOB)
    for mechanism in MECHANISMS:
        yield f"login: by {mechanism}", _logged_in(clients, "token", mechanism, made)
        yield f"login: by {mechanism}, of an unknown token", _logged_in(clients, "x", mechanism, made, token_id="x")
        yield f"login: by {mechanism}, with another HMAC", _logged_in(clients, "x", mechanism, made, of=b"another")
        yield f"login: by {mechanism}, as a user", _logged_in(clients, "x", mechanism, made, is_token=False)
    yield from _refused(clients, "by a token", "token")
    renew(clients, made.hmac, 500_000, BOB)
    yield "login: after a renewal", _logged_in(clients, "x", MECHANISMS[0], made)
    expire(clients, made.hmac, who=BOB)
    yield "login: after it was removed", _logged_in(clients, "x", MECHANISMS[0], made)
    yield "login: a connection after its token was removed", _is_served(clients, "token")
    short = create(clients, BOB, lifetime_ms=_SHORT_MS)
    yield "login: of a short life", _logged_in(clients, "short", MECHANISMS[0], short)[:2]
    yield "login: of a short life, meanwhile", _is_served(clients, "short")
    clients.let_pass(_SHORT_MS + _PAUSE_MS)
    yield "login: after the end of its token", _is_served(clients, "short")
    yield "login: of an expired one", _logged_in(clients, "x", MECHANISMS[0], short)[:2]


def _logged_in(
    clients: Clients,
    who: str,
    mechanism: str,
    token: Any,
    *,
    token_id: str = "",
    of: bytes = b"",
    is_token: bool = True,
) -> Any:
    answer = clients.log_in(who, mechanism, token_id or token.token_id, of or token.hmac, is_token=is_token)
    lifetime_ms = answer.session_lifetime_ms
    return name(answer.error_code), answer.error_message, _steps(lifetime_ms)


def _is_served(clients: Clients, name: str) -> bool:
    return clients.ask(request("Metadata", topics=[]), 9, name) is not None
