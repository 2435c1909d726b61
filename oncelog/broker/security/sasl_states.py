"""The states of a SASL login, and what is answered in each: one table.

Owns: the table. Does not own: what a request does (`broker.security.authentication`). It is that of Kafka's
SaslServerAuthenticator: ApiVersions may be asked once, before the handshake; after the handshake nothing but tokens is
taken; any other request ends the connection, before anything but its key and version was read of it.
"""

from enum import Enum
from typing import Final

from oncelog.protocol.api_keys import ApiKey


class SaslState(Enum):
    INITIAL = "Initial"
    """The connection is new, or has sent only an ApiVersions in a version that does not exist."""
    HANDSHAKE = "Handshake"
    """ApiVersions is answered: a handshake must come."""
    RAW_TOKENS = "RawTokens"
    """After SaslHandshake v0: each frame is a token, as in Kafka 0.10."""
    TOKENS = "Tokens"
    """After SaslHandshake v1: tokens come in SaslAuthenticate (KIP-152)."""
    COMPLETE = "Complete"
    """The client has its principal: all requests are served, until its session ends."""
    FAILED = "Failed"
    """Nothing more is taken: the connection ends when the response to the failure is sent."""


ANSWERED: Final[dict[SaslState, frozenset[ApiKey]]] = {
    SaslState.INITIAL: frozenset((ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)),
    SaslState.HANDSHAKE: frozenset((ApiKey.SASL_HANDSHAKE,)),
    SaslState.RAW_TOKENS: frozenset(),
    SaslState.TOKENS: frozenset((ApiKey.SASL_AUTHENTICATE,)),
    SaslState.COMPLETE: frozenset(ApiKey),
    SaslState.FAILED: frozenset(),
}

PREVIOUS: Final[dict[SaslState, frozenset[SaslState]]] = {
    SaslState.INITIAL: frozenset(),
    SaslState.HANDSHAKE: frozenset((SaslState.INITIAL,)),
    # Out of COMPLETE: the client authenticates again before its session ends (KIP-368).
    SaslState.RAW_TOKENS: frozenset((SaslState.INITIAL, SaslState.HANDSHAKE, SaslState.COMPLETE)),
    SaslState.TOKENS: frozenset((SaslState.INITIAL, SaslState.HANDSHAKE, SaslState.COMPLETE)),
    SaslState.COMPLETE: frozenset((SaslState.RAW_TOKENS, SaslState.TOKENS)),
    SaslState.FAILED: frozenset(SaslState) - {SaslState.FAILED},
}
"""The states from which each may be entered."""
