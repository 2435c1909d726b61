"""Logging in on one connection, without I/O: SaslHandshake, then SaslAuthenticate until both sides are content.

Owns: the two requests, what their errors mean. Does not own: what the tokens contain (an `Exchange`: `sasl`), when a
login is repeated (`transport`). Invariant: nothing but these two requests is sent while it lasts, and it ends by
`on_done` or by an AuthenticationFailed; no error has a secret in it. KIPs: 152 (SaslAuthenticate), 368 (its lifetime).
"""

from collections.abc import Callable
from typing import Any, Protocol

from oncelog.client.values.errors import AuthenticationFailed, KafkaError
from oncelog.client.wire.apis import Api, api_of
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated import (
    sasl_authenticate_request,
    sasl_authenticate_response,
    sasl_handshake_request,
    sasl_handshake_response,
)

SASL_HANDSHAKE: Api[Any, Any] = api_of(sasl_handshake_request, sasl_handshake_response, 1, 1)
"""The handshake API; after its version 0 the tokens would come without a header, as before Kafka 1.0."""
SASL_AUTHENTICATE: Api[Any, Any] = api_of(sasl_authenticate_request, sasl_authenticate_response, 0, 2)
Send = Callable[[Api[Any, Any], Any, Callable[[Any, KafkaError | None], None]], None]


class Exchange(Protocol):
    """The tokens of one login."""

    def first(self) -> bytes: ...

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next token; None if this side is content. Raises AuthenticationFailed."""
        ...


class Login:
    """One login, or its repetition."""

    def __init__(self, mechanism: str, exchange: Exchange, failure: Callable[[str], AuthenticationFailed]) -> None:
        """`failure` makes the error for what the broker says of a failed login."""
        self._mechanism, self._exchange, self._failure = mechanism, exchange, failure
        self._send: Send
        self._on_done: Callable[[int], None]

    def begin(self, send: Send, on_done: Callable[[int], None]) -> None:
        """Begin the login; `on_done` gets the lifetime of the session in milliseconds, 0 for no end."""
        self._send, self._on_done = send, on_done
        send(
            SASL_HANDSHAKE,
            sasl_handshake_request.SaslHandshakeRequest(mechanism=self._mechanism),
            self._on_handshake,
        )

    def _on_handshake(self, response: Any, error: KafkaError | None) -> None:
        if error is not None:
            return  # the connection is lost, and its owner has the error
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise no_such_mechanism(self._mechanism, response.mechanisms)
        if response.error_code:
            raise AuthenticationFailed(
                "this listener offers no login",
                code=ErrorCode(response.error_code),
                hint='security_protocol="PLAINTEXT" or "SSL", or the port of a listener with SASL',
            )
        self._authenticate(self._exchange.first())

    def _authenticate(self, token: bytes) -> None:
        request = sasl_authenticate_request.SaslAuthenticateRequest(auth_bytes=token)
        self._send(SASL_AUTHENTICATE, request, self._on_token)

    def _on_token(self, response: Any, error: KafkaError | None) -> None:
        if error is not None:
            return
        if response.error_code:
            raise self._failure(response.error_message or "the broker gives no reason")
        token = self._exchange.respond(bytes(response.auth_bytes))
        if token is not None:
            self._authenticate(token)
        else:
            self._on_done(response.session_lifetime_ms)


def no_such_mechanism(mechanism: str, offered: "list[str]") -> AuthenticationFailed:
    names = ", ".join(sorted(offered))
    return AuthenticationFailed(
        f"the listener does not offer {mechanism!r}, but {names or 'nothing'}",
        code=ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        hint="set sasl_mechanism to one that it offers, or sasl.enabled.mechanisms of the broker",
    )
