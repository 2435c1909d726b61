"""SASL/PLAIN (RFC 4616): the user and the password as they are; on a listener without TLS everybody can read them.

Owns: the token, and comparing passwords. Does not own: the users (`broker.security.jaas`).
Invariant: an unknown user, a wrong password and an authzid that differs from the user get the same text, after the
same comparison (CVE-2017-12610).
"""

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from oncelog.broker.security.mechanisms import AuthenticationFailed, Outcome, Success

_UNKNOWN_USERS_PASSWORD = "\0"
"""The password compared for an unknown user. No token can contain it: NUL separates the parts of a token."""
_REFUSED = "Authentication failed: Invalid username or password"
"""The text of a refused login, in Kafka's words."""


class Plain:
    def __init__(self, passwords: Mapping[str, str]) -> None:
        """Take the passwords by user."""
        self._passwords = passwords

    def begin(self) -> "Plain":
        return self

    def evaluate(self, token: bytes) -> Outcome:
        """Check a token: authorization id, NUL, user, NUL, password."""
        try:
            parts = token.decode("utf-8").split("\0")
        except UnicodeDecodeError:
            raise AuthenticationFailed("Authentication failed: the PLAIN token is not UTF-8") from None
        if len(parts) != 3:
            raise AuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authorization_id, user, password = parts
        if not user:
            raise AuthenticationFailed("Authentication failed: username not specified")
        if not password:
            raise AuthenticationFailed("Authentication failed: password not specified")
        expected = self._passwords.get(user, _UNKNOWN_USERS_PASSWORD)
        # Digests, since the comparison takes as long as what it compares.
        is_right = compare_digest(sha256(password.encode()).digest(), sha256(expected.encode()).digest())
        if not is_right or authorization_id not in ("", user):
            raise AuthenticationFailed(_REFUSED)
        return Success(b"", user)
