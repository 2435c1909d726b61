"""Delegation tokens (KIP-48, KIP-900): what each one is worth, and until when.

Owns: the HMAC of a token, its credential for SCRAM, whether it still counts, the removal of those that have expired.
Does not own: tokens themselves (`SecurityState.tokens`, in the metadata log), who may ask for one (the handlers).
Invariants
- A token is known by its id and its HMAC, made of the id by `delegation.token.secret.key`; no HMAC is stored.
- An expired token is as one that does not exist for a login, whether or not it was removed already.
- The challenge of a token that does not exist is like that of one that does.
"""

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from typing import Any

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.security.principal import Principal
from oncelog.broker.security.scram import (
    MIN_ITERATIONS,
    SALT_BYTES,
    Keys,
    ScramMechanism,
    TokenLogin,
    keys_of,
    salted_password,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Entropy, Scheduler, WallMs
from oncelog.broker.turns.schedule import Schedule
from oncelog.protocol.generated.delegation_token_record import DelegationTokenRecord
from oncelog.protocol.generated.remove_delegation_token_record import RemoveDelegationTokenRecord

_REMOVED_AT_ONCE = 500
"""How many tokens one background turn removes; the next turn continues."""


class DelegationTokens:
    def __init__(
        self,
        state: SecurityState,
        config: BrokerConfig,
        clock: Clock,
        entropy: Entropy,
        scheduler: Scheduler,
        write: Callable[[Sequence[Any]], object],
    ) -> None:
        """Serves a broker with `delegation.token.secret.key`; `write` puts records into the metadata log."""
        self._state = state
        self._secret_key = config.get_str("delegation.token.secret.key").encode()
        self._clock = clock
        self._entropy = entropy
        self._scheduler = scheduler
        self._write = write
        self._check_interval_ms = config.get_int("delegation.token.expiry.check.interval.ms")
        self._schedule = Schedule(clock)
        self._ids = {self.hmac_of(token_id): token_id for token_id in state.tokens}
        self._keys: dict[tuple[str, int], Completion[Keys]] = {}
        """Keys by token and mechanism, for tokens that a login was tried with: to derive them takes milliseconds."""
        state.watch(self._on_record)

    def _on_record(self, record: object) -> None:
        if isinstance(record, DelegationTokenRecord):
            self._ids[self.hmac_of(record.token_id)] = record.token_id
        elif isinstance(record, RemoveDelegationTokenRecord):
            self._ids.pop(self.hmac_of(record.token_id), None)
            for number in (1, 2):
                self._keys.pop((record.token_id, number), None)

    # --- for requests -------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """Return a new token id as Kafka makes it: 16 random bytes in base64 for URLs."""
        return urlsafe_b64encode(self._entropy.uuid().bytes).decode().rstrip("=")

    def hmac_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret_key, token_id.encode(), "sha512")

    def find(self, token_hmac: bytes) -> DelegationTokenRecord | None:
        """Return the token with this HMAC, perhaps an expired one; None if there is none."""
        token_id = self._ids.get(token_hmac)
        return None if token_id is None else self._state.tokens[token_id]

    # --- for logins by SCRAM ------------------------------------------------------------------------------------------

    def salt_of(self, token_id: str) -> bytes:
        return hmac.digest(self._secret_key, b"salt of " + token_id.encode(), "sha256")[:SALT_BYTES]

    def keys(self, token_id: str, mechanism: ScramMechanism) -> Completion[Keys]:
        """Return the keys of a token, whose password is its HMAC in base64. No proof fits those of a token that does
        not count."""
        if self.login(token_id) is None:
            nothing = bytes(mechanism.size_bytes)
            return Completion.of(Keys(nothing, nothing))
        keys = self._keys.get((token_id, mechanism.number))
        if keys is None:
            keys = self._keys[token_id, mechanism.number] = self._derived(token_id, mechanism)
        return keys

    def _derived(self, token_id: str, mechanism: ScramMechanism) -> Completion[Keys]:
        """Derive keys off the loop: 1.7 ms of SHA-512, measured."""
        password, salt = b64encode(self.hmac_of(token_id)).decode(), self.salt_of(token_id)
        derived: Completion[Keys] = Completion()
        found: list[Keys] = []

        def derive() -> None:
            found.append(keys_of(mechanism, salted_password(mechanism, password, salt, MIN_ITERATIONS)))

        def on_done(error: Exception | None) -> None:
            if error is None:
                derived.complete(found[0])
            else:
                self._keys.pop((token_id, mechanism.number), None)
                derived.fail(error)

        self._scheduler.run_beside(derive, on_done)
        return derived

    def login(self, token_id: str) -> TokenLogin | None:
        """Return the user of a login with this token and its duration; None for a token that does not count."""
        token = self._state.tokens.get(token_id)
        if token is None or has_expired(token, self._clock.wall_ms()):
            return None
        owner = principal_of(token.owner)
        if owner.kind != "User":  # Kafka makes such tokens: they are as those that do not exist
            return None
        return TokenLogin(owner.name, _last_ms(token) - self._clock.wall_ms())

    # --- in the background --------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Remove what has expired, every `delegation.token.expiry.check.interval.ms`."""
        if not self._schedule.take(self._check_interval_ms):
            return
        expired = [
            token_id for token_id, token in self._state.tokens.items() if has_expired(token, self._clock.wall_ms())
        ]
        if len(expired) > _REMOVED_AT_ONCE:
            self._schedule.expedite()
        if expired:
            self._write([RemoveDelegationTokenRecord(token_id=each) for each in expired[:_REMOVED_AT_ONCE]])


def principal_of(text: str) -> Principal:
    """Return the principal as the records have it: KIND:NAME, where a name may be empty."""
    kind, _, name = text.partition(":")
    return Principal(kind, name)


def has_expired(token: DelegationTokenRecord, wall_ms: WallMs) -> bool:
    return _last_ms(token) < wall_ms


def _last_ms(token: DelegationTokenRecord) -> int:
    """Return the last millisecond in which the token counts."""
    return min(token.expiration_timestamp, token.max_timestamp)
