"""Tokens of OAUTHBEARER: who comes in by one, and who does not."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.security.jwks import Jwks
from oncelog.broker.security.mechanisms import AuthenticationFailed, Challenge, Success
from oncelog.broker.security.oauthbearer import OAuthBearer, TokenRules
from tests.fakes.virtual_time import VirtualTime
from tests.support.security.tokens import Issuer

ISSUER = Issuer()
RULES = TokenRules(["kafka", "other"], "https://issuer.example", 30, "sub")
OTHER_KEY = rsa.generate_private_key(65_537, 2_048)
PUBLIC_PEM = ISSUER.key.public_key().public_bytes(
    serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
)


class Silent:
    def warning(self, *_: Any, **__: Any) -> None:
        """Do nothing, in place of structlog's method."""


class Source:
    """A source of keys that counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0
        self.data: dict[str, Any] | None = ISSUER.jwks()

    def fetch(self) -> bytes:
        self.count += 1
        if self.data is None:
            raise OSError("the issuer does not respond")
        return json.dumps(self.data).encode()


class Listener:
    def __init__(self, rules: TokenRules = RULES, *, refresh_ms: int = 3_600_000) -> None:
        self.time = VirtualTime(ISSUER.now_s * 1000)
        self.source = Source()
        jwks = Jwks(self.source.fetch, refresh_ms, self.time, self.time, Silent())
        self._mechanism = OAuthBearer(rules, jwks, self.time)

    def log_in(self, token: str, header: str = "n,,") -> Success | None:
        """None: refused as RFC 7628 has it."""
        conversation = self._mechanism.begin()
        outcome: Any = conversation.evaluate(f"{header}\x01auth=Bearer {token}\x01\x01".encode())
        if not isinstance(outcome, Success | Challenge):
            self.time.settle()
            outcome = outcome.result()
        if isinstance(outcome, Success):
            return outcome
        assert outcome.token == b'{"status":"invalid_token"}'
        with pytest.raises(AuthenticationFailed, match="invalid_token"):
            conversation.evaluate(b"\x01")
        return None


def part(value: Any) -> str:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed_with_the_public_key() -> str:
    """A token signed by HMAC, for a verifier that would use the public key as HMAC's."""
    signed = f"{part({'alg': 'HS256', 'kid': 'one'})}.{part(ISSUER.claims())}"
    return f"{signed}.{part(hmac.digest(PUBLIC_PEM, signed.encode(), hashlib.sha256))}"


def changed(change: Callable[[list[str]], None]) -> str:
    parts = ISSUER.token().split(".")
    change(parts)
    return ".".join(parts)


def test_a_signed_token_names_the_user_and_the_expiry() -> None:
    assert Listener().log_in(ISSUER.token()) == Success(b"", "alice", 3_600_000)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512"])
def test_a_key_without_a_stated_algorithm_checks_all_of_its_kind(algorithm: str) -> None:
    assert Listener().log_in(ISSUER.token(algorithm=algorithm)) is not None


def test_keys_on_curves_sign_as_well() -> None:
    token = ISSUER.token(key=ISSUER.curve_key, algorithm="ES256", headers={"kid": "two"})
    assert Listener().log_in(token) is not None


@pytest.mark.parametrize("claims", [{"aud": ["x", "kafka"]}, {"exp": ISSUER.now_s - 29}, {"iat": ISSUER.now_s + 30}])
def test_what_the_rules_allow_comes_in(claims: dict[str, Any]) -> None:
    assert Listener().log_in(ISSUER.token(**claims)) is not None


def test_the_user_may_be_in_another_claim() -> None:
    listener = Listener(TokenRules([], "", 0, "client_id"))
    success = listener.log_in(ISSUER.token(client_id="billing", aud="anybody", iss="anybody"))
    assert success is not None and success.user == "billing"


BAD_TOKENS = {
    "alg none": f"{part({'alg': 'none', 'kid': 'one'})}.{part(ISSUER.claims())}.",
    "alg None": f"{part({'alg': 'None', 'kid': 'one'})}.{part(ISSUER.claims())}.",
    "alg missing": f"{part({'kid': 'one'})}.{part(ISSUER.claims())}.x",
    "alg of a wrong type": f"{part({'alg': ['RS256'], 'kid': 'one'})}.{part(ISSUER.claims())}.x",
    "CVE-2022-29217: signed with the public key": signed_with_the_public_key(),
    "another key": ISSUER.token(key=OTHER_KEY),
    "a key in the token": ISSUER.token(key=OTHER_KEY, headers={"jwk": {"kty": "RSA"}, "kid": "own"}),
    "CVE-2025-27817: keys of the client's": ISSUER.token(
        key=OTHER_KEY, headers={"jku": "http://attacker.example/keys", "kid": "own"}
    ),
    "unknown key": ISSUER.token(headers={"kid": "three"}),
    "no key named of two": ISSUER.token(headers={"kid": None}),
    "key of the other kind": ISSUER.token(headers={"kid": "two"}),
    "demands an extension": ISSUER.token(headers={"crit": ["exp"]}),
    "signature cut off": changed(lambda parts: parts.__setitem__(2, "")),
    "signature changed": changed(lambda parts: parts.__setitem__(2, parts[2][::-1])),
    "claims changed": changed(lambda parts: parts.__setitem__(1, part(ISSUER.claims(sub="admin")))),
    "two parts": changed(lambda parts: parts.pop()),
    "four parts": changed(lambda parts: parts.append("x")),
    "expired": ISSUER.token(exp=ISSUER.now_s - 30),
    "no expiry": ISSUER.token(exp=None),
    "expiry as text": ISSUER.token(exp=str(ISSUER.now_s + 60)),
    "expiry true": ISSUER.token(exp=True),
    "expiry not a number": ISSUER.token(exp=float("nan")),
    "not yet valid": ISSUER.token(nbf=ISSUER.now_s + 31),
    "issued later": ISSUER.token(iat=ISSUER.now_s + 31),
    "no time of issue": ISSUER.token(iat=None),
    "another audience": ISSUER.token(aud="kafka2"),
    "no audience": ISSUER.token(aud=None),
    "another issuer": ISSUER.token(iss="https://issuer.example.attacker"),
    "CVE-2024-53861: part of the issuer": ISSUER.token(iss="issuer"),
    "no issuer": ISSUER.token(iss=None),
    "no user": ISSUER.token(sub=None),
    "empty user": ISSUER.token(sub=""),
    "user of a wrong type": ISSUER.token(sub=None, **{"sub ": "alice"}),
}


@pytest.mark.parametrize("token", BAD_TOKENS.values(), ids=BAD_TOKENS.keys())
def test_any_other_token_is_refused_without_a_reason(token: str) -> None:
    """CVE-2022-29217: the public key as a shared secret; CVE-2024-53861: part of an issuer's name; CVE-2025-27817: keys
    from where the client says."""
    assert Listener().log_in(token) is None


def test_another_identity_is_refused_and_the_own_one_is_not() -> None:
    assert Listener().log_in(ISSUER.token(), "n,a=bob,") is None
    assert Listener().log_in(ISSUER.token(), "n,a=alice,") is not None


@given(st.binary(max_size=100) | st.text(max_size=100).map(str.encode))
def test_what_is_no_message_fails(data: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        Listener()._mechanism.begin().evaluate(data)


@given(st.text(alphabet="abcdefgABCXYZ019_.-=", max_size=80))
def test_what_is_no_token_is_refused(token: str) -> None:
    assert not token or Listener().log_in(token) is None


class TestKeys:
    def test_keys_are_fetched_once_for_all_logins(self) -> None:
        listener = Listener()
        for _ in range(5):
            assert listener.log_in(ISSUER.token()) is not None
        assert listener.source.count == 1

    def test_an_unknown_key_has_them_fetched_again_once_a_minute_at_most(self) -> None:
        listener = Listener()
        unknown = ISSUER.token(headers={"kid": "three"})
        for _ in range(5):
            assert listener.log_in(unknown) is None
        assert listener.source.count == 1
        listener.time.advance(60_000)
        new = {**ISSUER.jwks()["keys"][0], "kid": "three"}
        listener.source.data = {"keys": [new]}
        assert listener.log_in(unknown) is not None
        assert listener.source.count == 2

    def test_old_keys_are_replaced(self) -> None:
        listener = Listener(refresh_ms=120_000)
        assert listener.log_in(ISSUER.token()) is not None
        listener.source.data = {"keys": []}
        listener.time.advance(120_000)
        listener.log_in(ISSUER.token())
        listener.time.settle()
        assert listener.log_in(ISSUER.token()) is None

    def test_while_the_issuer_does_not_respond_the_known_ones_stay(self) -> None:
        listener = Listener(refresh_ms=120_000)
        listener.log_in(ISSUER.token())
        listener.source.data = None
        listener.time.advance(120_000)
        for _ in range(2):
            assert listener.log_in(ISSUER.token()) is not None
            listener.time.settle()

    def test_secrets_and_keys_for_encryption_are_no_keys(self) -> None:
        listener = Listener()
        rsa_key = ISSUER.jwks()["keys"][0]
        secret = {"kty": "oct", "k": part(b"secret"), "kid": "one", "alg": "HS256"}
        for keys in ([{**rsa_key, "use": "enc"}], [secret], [{**rsa_key, "alg": "RS512"}], [{**rsa_key, "n": "!"}]):
            listener = Listener()
            listener.source.data = {"keys": keys}
            assert listener.log_in(ISSUER.token()) is None


@pytest.mark.parametrize("deep", ["header", "claims"])
def test_a_token_that_is_nested_deeply_is_refused_like_any_other(deep: str) -> None:
    """PyJWT before 2.14 raises RecursionError, which would be an error of ours in the log."""
    nested = b'{"alg":"RS256","kid":"one","x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    header, claims, signature = ISSUER.token().split(".")
    token = f"{part(nested)}.{claims}.{signature}" if deep == "header" else f"{header}.{part(nested)}.{signature}"
    assert Listener().log_in(token) is None
