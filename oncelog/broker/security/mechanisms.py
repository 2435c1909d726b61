"""A SASL mechanism as a login sees it, and the two possible outcomes of a token.

Owns: the interface. `plain`, `scram` and `oauthbearer` implement it: pure functions of tokens and of what they are
given (users, randomness, time).
"""

from typing import NamedTuple, Protocol

from oncelog.broker.turns.completion import Completion

PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"


class AuthenticationFailed(Exception):
    """Raised if the client is not who it says it is. The message goes to the client: never a reason that helps to
    guess."""


class Challenge(NamedTuple):
    """A token that the client must answer."""

    token: bytes


class Success(NamedTuple):
    """The client has proved to be `user`."""

    token: bytes
    user: str
    expires_in_ms: int | None = None
    """How long until the client's credential expires; None if it never does."""
    is_by_token: bool = False
    """True for a login by a delegation token, which gets no further tokens."""


Outcome = Challenge | Success


class Conversation(Protocol):
    """One login by one mechanism."""

    def evaluate(self, token: bytes) -> Outcome | Completion[Outcome]:
        """Raises, or completes with, AuthenticationFailed."""


class Mechanism(Protocol):
    """One mechanism that is enabled on a listener."""

    def begin(self) -> Conversation: ...
