"""SASL/OAUTHBEARER (RFC 7628, KIP-255, KIP-768): the client shows a signed token (JWT), which says who it is.

Owns: the messages of the mechanism, what a token must have. Does not own: the keys that sign tokens
(`broker.security.jwks`). The package PyJWT checks signatures; it is installed with `oncelog[security]`.
Invariants
- Algorithms are those that a key is for, all of them signatures by a private key, whatever a token asks for. None by a
  shared secret, which would make the public key one (CVE-2022-29217), and never `none`.
- Keys come from the settings alone: a token cannot name its own (`jku`, `jwk`, `x5u` are not looked at), and settings
  that name them do not change while the broker runs (CVE-2025-27817).
- Issuer and audience are compared whole (CVE-2024-53861).
- A refusal says no more than that the token is not valid; nothing logs one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from oncelog.broker.security.jwks import Jwks, SigningKey
from oncelog.broker.security.mechanisms import AuthenticationFailed, Challenge, Outcome, Success
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock

_FIRST = re.compile(
    r"n,(?:a=([^,\x01]+))?,\x01auth=[Bb]earer ([A-Za-z0-9_.=-]+)\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]*\x01)*)\x01\Z"
)
_REFUSAL = '{"status":"invalid_token"}'
_UNKNOWN_EXTENSIONS = "crit"
"""The header field that demands that its extensions are understood; none are."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """The requirements on a token besides its signature."""

    audience: Sequence[str]
    """The audiences of which a token must name one; any if it is empty."""
    issuer: str
    """The issuer that a token must name; any if it is empty."""
    skew_s: int
    user_claim: str


class OAuthBearer:
    """The mechanism as one listener offers it."""

    def __init__(self, rules: TokenRules, jwks: Jwks, clock: Clock) -> None:
        self._rules = rules
        self._jwks = jwks
        self._clock = clock

    def begin(self) -> "OAuthBearerConversation":
        return OAuthBearerConversation(self._token_of)

    def _token_of(self, token: str) -> Success | Completion[Success | None] | None:
        """Return the user of the token and its expiry; None if it is not valid."""
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.InvalidTokenError, RecursionError):  # PyJWT before 2.14 lets the latter through
            return None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or not isinstance(key_id, str | None) or _UNKNOWN_EXTENSIONS in header:
            return None
        key = self._jwks.find(key_id)
        if isinstance(key, Completion):
            return key.map(lambda found: self._checked(token, algorithm, found))
        return self._checked(token, algorithm, key)

    def _checked(self, token: str, algorithm: str, key: SigningKey | None) -> Success | None:
        rules = self._rules
        if key is None or algorithm not in key.algorithms:
            return None
        try:
            claims = jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=list(rules.audience) or None,
                issuer=rules.issuer or None,
                # Times are checked below, by the clock that the broker is given.
                options={
                    "require": ["exp", "iat", rules.user_claim],
                    "verify_aud": bool(rules.audience),
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_sub": False,
                },
            )
        except (jwt.InvalidTokenError, ValueError, TypeError, RecursionError):
            return None
        return self._accepted(claims)

    def _accepted(self, claims: Mapping[str, Any]) -> Success | None:
        wall_ms, skew_ms = self._clock.wall_ms(), self._rules.skew_s * 1000
        user = claims[self._rules.user_claim]
        times = [claims.get(name, 0) for name in ("exp", "iat", "nbf")]
        if not isinstance(user, str) or not user or not all(type(each) in (int, float) for each in times):
            return None
        expires_ms, issued_ms, valid_from_ms = (each * 1000 for each in times)
        # "not" for the sake of NaN, which is neither above nor below.
        latest_ms = wall_ms + skew_ms
        if not (wall_ms < expires_ms + skew_ms and issued_ms <= latest_ms and valid_from_ms <= latest_ms):
            return None
        # Of a token that never expires in practice: the longest time of the protocol.
        return Success(b"", user, int(min(max(expires_ms - wall_ms, 0), 2**62)))


class OAuthBearerConversation:
    def __init__(self, token_of: Callable[[str], Success | Completion[Success | None] | None]) -> None:
        self._token_of = token_of
        self._is_refused = False

    def evaluate(self, token: bytes) -> Outcome | Completion[Outcome]:
        if self._is_refused:
            raise AuthenticationFailed(_REFUSAL)
        match = _FIRST.match(token.decode("latin-1"))
        if match is None or "\x01auth=" in f"\x01{match[3]}":
            raise AuthenticationFailed("Authentication failed: this is no message of SASL/OAUTHBEARER")
        authorization_id = match[1]
        found = self._token_of(match[2])
        if isinstance(found, Completion):
            return found.map(lambda success: self._outcome(success, authorization_id))
        return self._outcome(found, authorization_id)

    def _outcome(self, success: Success | None, authorization_id: str | None) -> Outcome:
        if success is not None and authorization_id in (None, success.user):
            return success
        self._is_refused = True
        return Challenge(_REFUSAL.encode())
