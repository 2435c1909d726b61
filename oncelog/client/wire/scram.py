"""SCRAM without I/O (RFC 5802, RFC 7677): one login, and the proof that the broker knows the password, too.

Owns: the messages of both sides, and what each must contain. Does not own: the way there (`login`), the user's name and
password (`security`). Invariants: the nonce that comes back begins with ours and is longer; the number of iterations is
bounded before it is spent; a login whose last message lacks the broker's signature has failed.

Names and passwords are UTF-8 as they are, without SASLprep: as Kafka's clients and brokers have them. Channel binding
is none of Kafka's mechanisms.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64

from oncelog.client.values.errors import AuthenticationFailed

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MIN_ITERATIONS = 4_096
MAX_ITERATIONS = 1_000_000
"""The most iterations accepted; Kafka's brokers store 4,096 to 16,384. More than a million would let an unauthenticated
server hold the loop for seconds."""
_NO_BINDING = "n,,"
_TOKEN = ",tokenauth=true"
"""Kafka's extension of SCRAM for delegation tokens (KIP-48)."""
_FIRST = re.compile(r"r=([!-+\--~]+),s=([A-Za-z0-9+/]+=*),i=([1-9][0-9]{0,9})(?:,.*)?")
_FINAL = re.compile(r"v=([A-Za-z0-9+/]+=*)(?:,.*)?")
_REFUSED = re.compile(r"e=([^,]*)(?:,.*)?")


class SaltedPasswords:
    """A password, salted as the broker asks: once for all connections of a client, since that takes milliseconds."""

    def __init__(self, hash_name: str, password: str) -> None:
        self._hash_name, self._password = hash_name, password.encode()
        self._last: tuple[bytes, int, bytes] | None = None

    def salted(self, salt: bytes, iterations: int) -> bytes:
        if self._last is None or self._last[:2] != (salt, iterations):
            self._last = salt, iterations, salted_password(self._hash_name, self._password, salt, iterations)
        return self._last[2]


class ScramExchange:
    """One login by SCRAM: `first()`, then `respond` to each message of the broker until it returns None."""

    def __init__(
        self, hash_name: str, username: str, passwords: SaltedPasswords, nonce: str, *, is_token: bool = False
    ) -> None:
        self._hash_name, self._passwords, self._nonce = hash_name, passwords, nonce
        self._bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}{_TOKEN if is_token else ''}"
        self._signature: bytes | None = None
        """The signature that the broker's last message must contain."""

    def first(self) -> bytes:
        return (_NO_BINDING + self._bare).encode()

    def respond(self, challenge: bytes) -> bytes | None:
        """Raises AuthenticationFailed."""
        text = challenge.decode(errors="replace")
        refused = _REFUSED.fullmatch(text)
        if refused is not None:
            raise AuthenticationFailed(f"the broker refused the login: {refused[1]}")
        if self._signature is None:
            return self._proof(text)
        final = _FINAL.fullmatch(text)
        if final is None or not hmac.compare_digest(_decoded(final[1]), self._signature):
            raise AuthenticationFailed(
                "the broker did not prove that it knows the password",
                hint="another server may be listening there: check its address before the password is used again",
            )
        return None

    def _proof(self, server_first: str) -> bytes:
        found = _FIRST.fullmatch(server_first)
        if found is None:
            raise AuthenticationFailed("the broker's SCRAM challenge is malformed")
        nonce, salt, iterations = found[1], _decoded(found[2]), int(found[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the broker's SCRAM challenge is for another login: its nonce is not ours")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationFailed(
                f"the broker asks for {iterations:,} iterations of SCRAM, and {MIN_ITERATIONS:,} to "
                f"{MAX_ITERATIONS:,} are safe",
                hint="create the user's credentials again, with iterations in these bounds",
            )
        salted = self._passwords.salted(salt, iterations)
        without_proof = f"c={b64encode(_NO_BINDING.encode()).decode()},r={nonce}"
        message = f"{self._bare},{server_first},{without_proof}".encode()
        client_key = self._mac(salted, b"Client Key")
        signature = self._mac(hashlib.new(self._hash_name, client_key).digest(), message)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._mac(self._mac(salted, b"Server Key"), message)
        return f"{without_proof},p={b64encode(proof).decode()}".encode()

    def _mac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._hash_name)


def salted_password(hash_name: str, password: bytes, salt: bytes, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac(hash_name, password, salt, iterations)


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except NotBase64:
        raise AuthenticationFailed("the broker's SCRAM message is malformed") from None
