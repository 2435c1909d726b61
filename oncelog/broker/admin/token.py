"""The token of an HTTP port: a secret in a file, and whether a request has it.

Owns: what a token may be, who may read its file, the comparison. Does not own: which ports have one
(`broker.config.admin_address`), what it opens (`access`). Invariants
- The comparison takes the same time wherever two tokens differ.
- Neither a message nor a `repr` has the token in it.
"""

import hmac
import os
import re
import stat

_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]{16,512}=*\Z")
"""A token that a header may carry (RFC 6750), long enough not to be guessed."""


class TokenError(Exception):
    """The file cannot be used; the message says why, and what to do."""


class Token:
    def __init__(self, value: bytes) -> None:
        """Raises TokenError."""
        if not _TOKEN.match(value):
            raise TokenError(
                "a token is one line of at least 16 letters, digits and -._~+/, such as `openssl rand -hex 32` prints"
            )
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Token) and hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]

    def is_in(self, authorization: bytes) -> bool:
        """Whether this value of the Authorization header contains the token."""
        scheme, _, given = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._value)


def read_token(path: str) -> Token:
    """Raises TokenError."""
    try:
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            value = file.read(1_024).strip()
    except OSError as error:
        raise TokenError(f"{path}: {error.strerror or error}") from error
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise TokenError(f"{path} may be read by others: chmod 600 {path}")
    try:
        return Token(value)
    except TokenError as error:
        raise TokenError(f"{path}: {error}") from error
