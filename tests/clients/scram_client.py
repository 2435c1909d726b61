"""The client's side of SCRAM (RFC 5802), whose messages a test may change before they are sent."""

import hashlib
import hmac
from base64 import b64decode, b64encode

from oncelog.broker.security.scram import Keys, ScramMechanism, keys_of, salted_password


class ScramClient:
    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str = "client-nonce") -> None:
        self._hash_name = mechanism.hash_name
        self._password = password
        self.header = "n,,"
        self.bare = f"n={user},r={nonce}"

    @property
    def first(self) -> bytes:
        return (self.header + self.bare).encode()

    def final(self, challenge: bytes, *, nonce_suffix: str = "", binding: str = "") -> bytes:
        server_first = challenge.decode()
        fields = dict(part.split("=", 1) for part in server_first.split(","))
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password.encode(), b64decode(fields["s"]), int(fields["i"]))
        bound = b64encode((binding or self.header).encode()).decode()
        without_proof = f"c={bound},r={fields['r']}{nonce_suffix}"
        message = f"{self.bare},{server_first},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._hash_name)
        stored_key = hashlib.new(self._hash_name, client_key).digest()
        signature = hmac.digest(stored_key, message, self._hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.expected = b"v=" + b64encode(
            hmac.digest(hmac.digest(salted, b"Server Key", self._hash_name), message, self._hash_name)
        )
        return f"{without_proof},p={b64encode(proof).decode()}".encode()


def keys(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> Keys:
    return keys_of(mechanism, salted_password(mechanism, password, salt, iterations))
