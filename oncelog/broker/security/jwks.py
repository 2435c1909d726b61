"""The public keys by which tokens are checked (JWKS, RFC 7517), of a URL in the settings.

Owns: when they are fetched, beside the event loop: when they are old or lack a key. Does not own: how
(`broker.security.jwks_source`), tokens (`broker.security.oauthbearer`).
Invariants
- Whatever clients send, they are fetched once in `_PAUSE_MS` at most.
- When they cannot be fetched, those that are known stay in use.
"""

import json
from typing import Any, NamedTuple

import jwt

from oncelog.broker.security.jwks_source import Fetch
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler

_PAUSE_MS = 60_000
_ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC P-256": ("ES256",),
    "EC P-384": ("ES384",),
    "EC P-521": ("ES512",),
    "OKP Ed25519": ("EdDSA",),
    "OKP Ed448": ("EdDSA",),
}
"""The algorithms by type and curve of a key."""


class SigningKey(NamedTuple):
    key: Any
    """A key as PyJWT and cryptography have it."""
    algorithms: tuple[str, ...]
    """The algorithms by which it may check signatures."""


class Jwks:
    def __init__(self, fetch: Fetch, refresh_ms: int, clock: Clock, scheduler: Scheduler, log: Any) -> None:
        self._fetch = fetch
        self._refresh_ms = refresh_ms
        self._clock = clock
        self._scheduler = scheduler
        self._log = log
        self._keys: dict[str | None, SigningKey] = {}
        self._fetched_ms: MonotonicMs | None = None
        """The time of the last attempt to fetch."""
        self._fetching: Completion[None] | None = None

    def find(self, key_id: str | None) -> SigningKey | Completion[SigningKey | None] | None:
        """Return the key of this id; None if there is none. A token without an id has the only key there is."""
        monotonic_ms = self._clock.monotonic_ms()
        age_ms = None if self._fetched_ms is None else monotonic_ms - self._fetched_ms
        is_old = age_ms is None or age_ms >= max(self._refresh_ms, _PAUSE_MS)
        known = self._known(key_id)
        lacks_key = known is None and (age_ms is None or age_ms >= _PAUSE_MS)
        if self._fetching is None and (is_old or lacks_key):
            self._fetched_ms = monotonic_ms
            self._begin_fetch()
        if known is not None or self._fetching is None:
            return known
        return self._fetching.map(lambda _: self._known(key_id))

    def _known(self, key_id: str | None) -> SigningKey | None:
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _begin_fetch(self) -> None:
        fetched: list[dict[str | None, SigningKey]] = []
        fetching: Completion[None] = Completion()
        self._fetching = fetching

        def done(error: Exception | None) -> None:
            self._fetching = None
            if error is None:
                self._keys = fetched[0]
            else:
                self._log.warning(
                    "jwks.not_fetched",
                    error=f"{type(error).__name__}: {error}"[:300],
                    message="the keys of tokens (sasl.oauthbearer.jwks.endpoint.url) are tried again in a minute",
                )
            fetching.complete(None)

        self._scheduler.run_beside(lambda: fetched.append(_parsed(self._fetch())), done)


def _parsed(data: bytes) -> dict[str | None, SigningKey]:
    """Return the keys by id; keys of unknown kinds, and those that do not sign, are left out. Raises ValueError."""
    listed = json.loads(data)
    if not isinstance(listed, dict) or not isinstance(listed.get("keys"), list):
        raise ValueError("this is no set of keys: there is no list `keys`")
    keys: dict[str | None, SigningKey] = {}
    for each in listed["keys"]:
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        kind = " ".join(str(each[part]) for part in ("kty", "crv") if part in each)
        possible = _ALGORITHMS.get(kind, ())
        stated = each.get("alg")
        algorithms = tuple(name for name in possible if stated in (None, name))
        if not algorithms:
            continue
        try:
            keys[each.get("kid")] = SigningKey(jwt.PyJWK.from_dict(each, algorithms[0]).key, algorithms)
        except (jwt.PyJWKError, jwt.InvalidKeyError, ValueError, TypeError):
            continue
    return keys
