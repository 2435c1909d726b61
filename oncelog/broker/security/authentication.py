"""The login of one connection, without its socket: the state of `broker.security.sasl_states`, moved by requests.

Owns: the state, the mechanism that was chosen, the principal, the end of the session (KIP-368). Does not own: frames,
waiting, closing (`broker.net.login`), what a token proves (the mechanisms).
Invariants
- A request is looked at only if the table answers it in this state.
- A principal is set by COMPLETE alone, and never changes: to authenticate again as another fails.
- Time is passed in. A failure has one text for the client; nothing here is logged.
"""

from collections.abc import Mapping
from typing import Final

from oncelog.broker.security.mechanisms import AuthenticationFailed, Conversation, Mechanism, Outcome, Success
from oncelog.broker.security.principal import Principal
from oncelog.broker.security.sasl_states import ANSWERED, PREVIOUS, SaslState
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.protocol.api_keys import ApiKey

_LEAST_PAUSE_MS = 1_000
"""The pause required between two handshakes of one connection, as in Kafka."""


class IllegalSaslState(Exception):
    """Ends the connection; the message is for the log."""


class Authentication:
    def __init__(self, mechanisms: Mapping[str, Mechanism], max_session_ms: Mapping[str, int]) -> None:
        """Take mechanisms and session limits, both by the mechanism's name. A session of 0 ms never ends."""
        self.mechanisms: Final = mechanisms
        self._max_session_ms = max_session_ms
        self.state = SaslState.INITIAL
        self.principal: Principal | None = None
        self.is_by_token = False
        """True if the last login was by a delegation token."""
        self._mechanism = ""
        self._conversation: Conversation | None = None
        self._is_another_mechanism = ""
        self._began_ms: MonotonicMs | None = None
        self.session_ends_ms: MonotonicMs | None = None
        """When the session ends; None if it never does."""

    # --- what may come ------------------------------------------------------------------------------------------------

    def check(self, api_key: int) -> None:
        """Raises IllegalSaslState unless a request of this API is answered now."""
        if api_key not in ANSWERED[self.state]:
            name = ApiKey(api_key).name if api_key in ApiKey.__members__.values() else f"with key {api_key}"
            raise IllegalSaslState(f"a request {name} came in the state {self.state.value} of a SASL login")

    def on_api_versions(self) -> None:
        """Note that ApiVersions was requested in a version that exists."""
        if self.state is SaslState.INITIAL:
            self._enter(SaslState.HANDSHAKE)

    def has_ended(self, monotonic_ms: MonotonicMs) -> bool:
        """Whether the session is over, so that nothing but a new login is taken."""
        return self.session_ends_ms is not None and monotonic_ms > self.session_ends_ms

    def may_begin_again(self, monotonic_ms: MonotonicMs) -> bool:
        """Whether a SaslHandshake after the login begins another one; otherwise it is refused."""
        if self.session_ends_ms is None:
            return False
        return self._began_ms is None or monotonic_ms - self._began_ms >= _LEAST_PAUSE_MS

    # --- the login ----------------------------------------------------------------------------------------------------

    def on_handshake(self, mechanism: str, version: int, monotonic_ms: MonotonicMs) -> bool:
        """Whether the mechanism is enabled; if not, the login has failed."""
        if mechanism not in self.mechanisms:
            self.fail()
            return False
        if self.principal is not None:
            self._began_ms = monotonic_ms
            self._is_another_mechanism = mechanism if mechanism != self._mechanism else ""
        else:
            self._mechanism = mechanism
        self._conversation = self.mechanisms[mechanism].begin()
        self._enter(SaslState.TOKENS if version >= 1 else SaslState.RAW_TOKENS)
        return True

    def evaluate(self, token: bytes) -> Outcome | Completion[Outcome]:
        """Raises, or completes with, AuthenticationFailed; `complete` takes the outcome."""
        if self._is_another_mechanism:
            raise AuthenticationFailed(
                f"SASL mechanism '{self._is_another_mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
        if self._conversation is None:
            raise AuthenticationFailed("no mechanism was chosen")
        return self._conversation.evaluate(token)

    def complete(self, outcome: Outcome, monotonic_ms: MonotonicMs) -> int:
        """Take the outcome of a mechanism; returns how long the session lasts, 0 for one without an end and for a login
        that continues. Raises AuthenticationFailed."""
        if not isinstance(outcome, Success):
            return 0
        principal = Principal("User", outcome.user)
        if self.principal is not None and self.principal != principal:
            before = self.principal
            raise AuthenticationFailed(
                f"Cannot change principals during re-authentication from {before.kind}.{before.name}: "
                f"{principal.kind}.{principal.name}"
            )
        self.principal = principal
        self.is_by_token = outcome.is_by_token
        self._conversation = None
        self._enter(SaslState.COMPLETE)
        limits = [self._max_session_ms.get(self._mechanism, 0) or None, outcome.expires_in_ms]
        session_ms = min((limit for limit in limits if limit is not None), default=None)
        self.session_ends_ms = None if session_ms is None else MonotonicMs(monotonic_ms + max(session_ms, 0))
        return max(session_ms or 0, 0)

    @property
    def mechanism(self) -> str:
        return self._mechanism

    def fail(self) -> None:
        self._conversation = None
        if self.state is not SaslState.FAILED:
            self._enter(SaslState.FAILED)

    def _enter(self, state: SaslState) -> None:
        if self.state not in PREVIOUS[state]:
            raise IllegalSaslState(f"{state.value} does not follow {self.state.value}")
        self.state = state
