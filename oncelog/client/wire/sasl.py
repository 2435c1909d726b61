"""A SASL mechanism with its credentials, which makes logins on any number of connections.

Owns: PLAIN (RFC 4616), OAUTHBEARER (RFC 7628), the choice among mechanisms, what a failed login may be due to. Does not
own: SCRAM (`scram`), the requests (`login`), the options (`security`). Invariant: no repr, error or log line has a
password or a token in it.
"""

import inspect
import os
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping

from oncelog.client.values.errors import AuthenticationFailed, ConfigError
from oncelog.client.wire.login import Exchange, Login
from oncelog.client.wire.scram import HASHES, SaltedPasswords, ScramExchange
from oncelog.protocol.errors import ErrorCode

TokenProvider = Callable[[], str | Awaitable[str]]
_NONCE_BYTES = 24
_SEPARATOR = "\x01"


class PlainExchange:
    def __init__(self, username: str, password: str) -> None:
        self._token = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        return None


class OAuthBearerExchange:
    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        text = _SEPARATOR.join(f"{name}={value}" for name, value in pairs.items())
        self._token = f"n,,{_SEPARATOR}{text}{_SEPARATOR}{_SEPARATOR}".encode()

    def first(self) -> bytes:
        return self._token

    def respond(self, challenge: bytes) -> bytes | None:
        """Reply to a refusal: the broker explains why it refuses the token, and waits for this before it ends the
        login."""
        return _SEPARATOR.encode() if challenge else None


class PasswordLogins:
    """Logs in as a user with a password, by PLAIN or SCRAM, or with a delegation token, by SCRAM (KIP-48)."""

    def __init__(self, mechanism: str, username: str, password: str, *, is_token: bool = False) -> None:
        if not username or not password:
            raise ConfigError(f"{mechanism} needs sasl_username and sasl_password, which must not be empty")
        if "\0" in username or "\0" in password:
            raise ConfigError("sasl_username and sasl_password must not contain NUL")
        if is_token and mechanism not in HASHES:
            raise ConfigError(f"a delegation token logs in by SCRAM, not by {mechanism}")
        self._mechanism, self._username, self._password = mechanism, username, password
        self._is_token = is_token
        self._hash_name = HASHES.get(mechanism)
        self._passwords = SaltedPasswords(self._hash_name, password) if self._hash_name is not None else None

    async def new(self) -> Login:
        return Login(self._mechanism, self._exchange(), self._failed)

    def _exchange(self) -> Exchange:
        if self._hash_name is None or self._passwords is None:
            return PlainExchange(self._username, self._password)
        nonce = b64encode(os.urandom(_NONCE_BYTES)).decode()
        return ScramExchange(self._hash_name, self._username, self._passwords, nonce, is_token=self._is_token)

    def _failed(self, said: str) -> AuthenticationFailed:
        if self._is_token:
            return AuthenticationFailed(
                f"delegation token {self._username!r}: {said}",
                code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                hint="it may have expired; sasl_username is its id, sasl_password its HMAC in base64",
            )
        return AuthenticationFailed(
            f"user {self._username!r}: {said}",
            code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            hint=f"check sasl_username and sasl_password, and that the user has credentials for {self._mechanism}",
        )


class TokenLogins:
    """Logs in with a token, a fresh one for each login: OAUTHBEARER."""

    def __init__(self, provider: TokenProvider, extensions: Mapping[str, str]) -> None:
        self._provider, self._extensions = provider, extensions

    async def new(self) -> Login:
        """Raises AuthenticationFailed if the provider fails, with its exception as the cause."""
        try:
            token = self._provider()
            if inspect.isawaitable(token):
                token = await token
        except AuthenticationFailed:  # one that says itself what is wrong
            raise
        except Exception as error:  # the application's function may raise anything
            raise AuthenticationFailed(
                f"sasl_oauth_token_provider raised {type(error).__name__}",
                hint="its exception is the cause of this one",
            ) from error
        if not isinstance(token, str) or not token or not token.isascii() or _SEPARATOR in token:
            raise AuthenticationFailed("sasl_oauth_token_provider returned no token", hint="it must return a str")
        return Login("OAUTHBEARER", OAuthBearerExchange(token, self._extensions), _token_refused)


def _token_refused(said: str) -> AuthenticationFailed:
    return AuthenticationFailed(
        f"the token is not accepted: {said}",
        code=ErrorCode.SASL_AUTHENTICATION_FAILED,
        hint="check its issuer, audience and expiry: the broker's log says more",
    )


Logins = PasswordLogins | TokenLogins
