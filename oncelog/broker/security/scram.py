"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677): both sides prove that they know the keys of the password, and
neither says it.

Owns: the messages, and comparing proofs. Does not own: where credentials are (the metadata log; `ScramUsers` finds
them).
Invariants
- An unknown user gets a challenge like a known one, the same salt at each attempt, and fails at the same message with
  the same text. (Kafka's fails at the first: kroxylicious#4683.)
- The nonce, the channel binding and the proof are compared whole (CVE-2024-56128), in constant time.
- A login as another identity fails, after the proof was looked at.
- What a client has sent is bounded before any of it is kept.
- No password is here: the broker keeps StoredKey and ServerKey, and PBKDF2 runs in the client.
"""

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from oncelog.broker.security.mechanisms import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    AuthenticationFailed,
    Challenge,
    Outcome,
    Success,
)
from oncelog.broker.turns.completion import Completion

MIN_ITERATIONS, MAX_ITERATIONS = 4_096, 16_384
"""The bounds of Kafka, whose tools write the least."""
SALT_BYTES = 26
"""The size of a salt in Kafka's tools."""
_MOST_MESSAGE_BYTES = 16_384
"""Much more than any client sends. A first message is kept until the proof comes: for as long as a login may take, by a
client that has proved nothing yet."""
_CLIENT_FIRST = re.compile(
    r"(n,(?:a=([^,]+))?,)((?:m=[^,]+,)?n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)((?:,[A-Za-z]+=[^,]+)*))\Z"
)
_CLIENT_FINAL = re.compile(
    r"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+=[^,]+)*),p=([A-Za-z0-9+/=]+)\Z"
)
_ESCAPE = re.compile(r"=(2C|3D)?")


class ScramMechanism(NamedTuple):
    name: str
    number: int
    """The mechanism's number in Kafka's records and requests."""
    hash_name: str

    def hashed(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)

    @property
    def size_bytes(self) -> int:
        """The size of keys and proofs."""
        return hashlib.new(self.hash_name).digest_size


SCRAM_MECHANISMS: Final = {
    SCRAM_SHA_256: ScramMechanism(SCRAM_SHA_256, 1, "sha256"),
    SCRAM_SHA_512: ScramMechanism(SCRAM_SHA_512, 2, "sha512"),
}


class Credential(Protocol):
    """A user's credential as Kafka's UserScramCredentialRecord has it."""

    @property
    def salt(self) -> bytes: ...
    @property
    def stored_key(self) -> bytes: ...
    @property
    def server_key(self) -> bytes: ...
    @property
    def iterations(self) -> int: ...


class StoredCredential(NamedTuple):
    """A credential that is in no record: of a token, or of an unknown user."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


class Keys(NamedTuple):
    """The keys that the broker keeps in the place of a password."""

    stored_key: bytes
    server_key: bytes


class TokenLogin(NamedTuple):
    """The owner of a delegation token, and how long until it expires."""

    owner: str
    expires_in_ms: int


class Tokens(Protocol):
    """Delegation tokens (`broker.security.delegation_tokens`)."""

    def salt_of(self, token_id: str) -> bytes:
        """Return the salt of a token, made up if it does not exist."""

    def keys(self, token_id: str, mechanism: ScramMechanism) -> Completion[Keys]:
        """Return the token's keys at MIN_ITERATIONS; those of a token that does not count fit no proof."""

    def login(self, token_id: str) -> TokenLogin | None:
        """Return the login of a token; None if it does not exist or has expired."""


class ScramUsers:
    """The known users, and the made-up credentials of unknown ones."""

    def __init__(
        self,
        known: Mapping[tuple[str, int], Credential],
        secret: bytes,
        nonce: Callable[[], str],
        tokens: Tokens | None = None,
    ) -> None:
        """Looks up `known`, by user and number of the mechanism, again at each login. `secret` decides the salts of
        unknown users; `nonce` is random and new at each call; `tokens` is None where no tokens exist."""
        self._usual: dict[int, tuple[int, int]] = {}
        self.nonce: Final = nonce
        self.replace(known, secret, tokens)

    def replace(self, known: Mapping[tuple[str, int], Credential], secret: bytes, tokens: Tokens | None = None) -> None:
        """Look them up here from now on, in logins that have begun, too."""
        self._known = known
        self._secret = secret
        self._tokens = tokens
        self.on_change()

    def on_change(self) -> None:
        """Forget the usual credential: the known users have changed."""
        self._usual.clear()

    def find(self, user: str, mechanism: ScramMechanism) -> tuple[Credential, bool]:
        """Return a credential, and whether its user is known."""
        found = self._known.get((user, mechanism.number))
        if found is not None:
            return found, True
        return self._phantom(user, mechanism), False

    def find_token(self, token_id: str, mechanism: ScramMechanism) -> tuple[Credential, Completion[Keys] | None]:
        """Return what a client with `tokenauth` (KIP-48) must prove to know: its keys come later, unless there are no
        tokens; `token_login` says whether the token exists."""
        if self._tokens is None:
            return self._phantom(token_id, mechanism), None
        nothing = bytes(mechanism.size_bytes)
        challenge = StoredCredential(self._tokens.salt_of(token_id), nothing, nothing, MIN_ITERATIONS)
        return challenge, self._tokens.keys(token_id, mechanism)

    def token_login(self, token_id: str) -> TokenLogin | None:
        return None if self._tokens is None else self._tokens.login(token_id)

    def _phantom(self, user: str, mechanism: ScramMechanism) -> StoredCredential:
        salt_bytes, iterations = self._usual_of(mechanism.number)
        # Another salt for each mechanism, as users have: two equal ones would reveal an unknown user.
        seed = b"%b%d %b" % (self._secret, mechanism.number, user.encode())
        salt = hashlib.shake_256(seed).digest(salt_bytes)
        nothing = bytes(mechanism.size_bytes)
        return StoredCredential(salt, nothing, nothing, iterations)

    def _usual_of(self, number: int) -> tuple[int, int]:
        """Return the most common salt size and iteration count of known users: computed once, or response times would
        reveal how many there are and which are unknown."""
        usual = self._usual.get(number)
        if usual is None:
            counts = Counter((len(each.salt), each.iterations) for (_, of), each in self._known.items() if of == number)
            usual = counts.most_common(1)[0][0] if counts else (SALT_BYTES, MIN_ITERATIONS)
            self._usual[number] = usual
        return usual


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return what a client computes and sends in AlterUserScramCredentials."""
    return hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def keys_of(mechanism: ScramMechanism, salted: bytes) -> Keys:
    client_key = mechanism.hmac(salted, b"Client Key")
    return Keys(mechanism.hashed(client_key), mechanism.hmac(salted, b"Server Key"))


class Scram:
    """One of the two mechanisms as a listener offers it."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self._mechanism = mechanism
        self._users = users

    def begin(self) -> "ScramConversation":
        return ScramConversation(self._mechanism, self._users)


class ScramConversation:
    def __init__(self, mechanism: ScramMechanism, users: ScramUsers) -> None:
        self._mechanism = mechanism
        self._users = users
        self._first: _First | None = None
        self._has_ended = False

    def evaluate(self, token: bytes) -> Outcome | Completion[Outcome]:
        if len(token) > _MOST_MESSAGE_BYTES:
            raise self._failure()
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            raise self._failure() from None
        if self._has_ended:
            raise self._failure()
        if self._first is None:
            self._first = self._begin(text)
            return Challenge(self._first.server_message.encode())
        self._has_ended = True
        first = self._first
        if first.token_keys is not None:
            return first.token_keys.map(lambda keys: self._finish(text, first, keys))
        return self._finish(text, first, Keys(first.credential.stored_key, first.credential.server_key))

    def _begin(self, text: str) -> "_First":
        match = _CLIENT_FIRST.match(text)
        if match is None:
            raise self._failure()
        header, authorization_id, bare, name, client_nonce, extensions = match.groups()
        user = self._unescaped(name)
        is_token = "tokenauth=true" in extensions.lower().split(",")
        is_known, token_keys = False, None
        if is_token:
            credential, token_keys = self._users.find_token(user, self._mechanism)
        else:
            credential, is_known = self._users.find(user, self._mechanism)
        nonce = client_nonce + self._users.nonce()
        salt = b64encode(credential.salt).decode()
        return _First(
            user=user,
            authorization_id=None if authorization_id is None else self._unescaped(authorization_id),
            header=header,
            bare=bare,
            nonce=nonce,
            server_message=f"r={nonce},s={salt},i={credential.iterations}",
            credential=credential,
            is_known=is_known,
            is_token=is_token,
            token_keys=token_keys,
        )

    def _finish(self, text: str, first: "_First", keys: Keys) -> Outcome:
        mechanism = self._mechanism
        match = _CLIENT_FINAL.match(text)
        if match is None:
            raise self._failure()
        without_proof, binding, nonce, encoded_proof = match.groups()
        try:
            proof = b64decode(encoded_proof, validate=True)
        except Base64Error:
            raise self._failure() from None
        if len(proof) != mechanism.size_bytes or b64encode(proof).decode() != encoded_proof:
            raise self._failure()
        message = f"{first.bare},{first.server_message},{without_proof}".encode()
        signature = mechanism.hmac(keys.stored_key, message)
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        token = self._users.token_login(first.user) if first.is_token else None
        checks = (
            hmac.compare_digest(mechanism.hashed(client_key), keys.stored_key),
            hmac.compare_digest(nonce, first.nonce),
            hmac.compare_digest(binding, b64encode(first.header.encode()).decode()),
            first.authorization_id in (None, first.user),
            first.is_known or token is not None,
        )
        if not all(checks):
            raise self._failure()
        proved = b"v=" + b64encode(mechanism.hmac(keys.server_key, message))
        if token is None:
            return Success(proved, first.user)
        return Success(proved, token.owner, token.expires_in_ms, is_by_token=True)

    def _unescaped(self, name: str) -> str:
        def plain(found: "re.Match[str]") -> str:
            if found[1] is None:
                raise self._failure()
            return "," if found[1] == "2C" else "="

        return _ESCAPE.sub(plain, name)

    def _failure(self) -> AuthenticationFailed:
        return AuthenticationFailed(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism.name}"
        )


class _First(NamedTuple):
    """The fields of the client's first message."""

    user: str
    authorization_id: str | None
    header: str
    bare: str
    nonce: str
    server_message: str
    credential: Credential
    is_known: bool
    """True for a known user; always False for a token, which may expire before the last message."""
    is_token: bool
    token_keys: Completion[Keys] | None
    """The keys of a token, where tokens are enabled: derived off the loop, while the client derives its own."""
