"""SCRAM: the vectors of its specification, and what a server that is not the broker may try."""

import base64
import hashlib
import hmac

import pytest

from oncelog.client import AuthenticationFailed
from oncelog.client.wire.scram import SaltedPasswords, ScramExchange, salted_password

NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = f"r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(username: str = "user", password: str = "pencil") -> ScramExchange:
    return ScramExchange("sha256", username, SaltedPasswords("sha256", password), NONCE)


def refused(said: str, server_first: str, server_final: str | None = None) -> None:
    begun = exchange()
    begun.first()
    if server_final is not None:
        begun.respond(server_first.encode())
    with pytest.raises(AuthenticationFailed, match=said) as caught:
        begun.respond((server_first if server_final is None else server_final).encode())
    assert "pencil" not in str(caught.value)


def test_a_login_goes_as_in_rfc_7677() -> None:
    begun = exchange()
    assert begun.first() == f"n,,n=user,r={NONCE}".encode()
    assert begun.respond(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert begun.respond(SERVER_FINAL.encode()) is None


def test_a_server_with_sha_512_can_check_the_proof_and_the_client_its_signature() -> None:
    """The server's side, as RFC 5802 computes it from what it has stored."""
    begun = ScramExchange("sha512", "user", SaltedPasswords("sha512", "pencil"), NONCE)
    first = begun.first().decode().removeprefix("n,,")
    challenge = f"r={NONCE}server,s={base64.b64encode(b'salt').decode()},i=8192"
    answer = begun.respond(challenge.encode())
    assert answer is not None
    without_proof, _, proof = answer.decode().rpartition(",p=")
    salted = hashlib.pbkdf2_hmac("sha512", b"pencil", b"salt", 8192)
    stored_key = hashlib.sha512(hmac.digest(salted, b"Client Key", "sha512")).digest()
    message = f"{first},{challenge},{without_proof}".encode()
    pairs = zip(base64.b64decode(proof), hmac.digest(stored_key, message, "sha512"), strict=True)
    assert hashlib.sha512(bytes(a ^ b for a, b in pairs)).digest() == stored_key
    signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha512"), message, "sha512")
    assert begun.respond(b"v=" + base64.b64encode(signature)) is None


def test_a_name_may_have_the_signs_that_separate() -> None:
    assert exchange("a=b,c").first() == f"n,,n=a=3Db=2Cc,r={NONCE}".encode()


def test_a_delegation_token_is_announced_in_the_first_message() -> None:
    begun = ScramExchange("sha256", "id", SaltedPasswords("sha256", "hmac"), NONCE, is_token=True)
    assert begun.first() == f"n,,n=id,r={NONCE},tokenauth=true".encode()


@pytest.mark.parametrize(
    "nonce", ["another", NONCE, NONCE[:-1] + "X" + "more"], ids=["another's", "ours and no more", "ours but for a sign"]
)
def test_a_challenge_for_another_login_is_refused(nonce: str) -> None:
    refused("its nonce is not ours", f"r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")


@pytest.mark.parametrize("iterations", [1, 4_095, 1_000_001, 2_147_483_647])
def test_no_server_chooses_how_weak_the_proof_is_or_how_long_it_takes(iterations: int) -> None:
    """kafka-python#3026: a client computed as many as any server asked for, and hung."""
    refused(f"{iterations:,} iterations", f"r={NONCE}server,s=W22ZaJ0SNY7soEsUEjb6gQ==,i={iterations}")


@pytest.mark.parametrize("challenge", ["", "r=", f"r={NONCE}x,s=!,i=4096", f"r={NONCE}x,s=c2FsdA==,i=-1", "v=c2FsdA=="])
def test_a_challenge_that_is_none_is_refused(challenge: str) -> None:
    refused("malformed", challenge)


@pytest.mark.parametrize("final", ["", "v=", "v=AAAA", SERVER_FINAL.replace("6rri", "6rrI"), "ok"])
def test_a_server_that_does_not_know_the_password_is_no_broker_of_ours(final: str) -> None:
    refused("did not prove that it knows the password", SERVER_FIRST, final)


def test_a_server_that_refuses_may_say_why() -> None:
    refused("refused the login: invalid-proof", SERVER_FIRST, "e=invalid-proof")


def test_a_password_is_salted_once_for_all_connections_of_a_client() -> None:
    passwords = SaltedPasswords("sha256", "pencil")
    salted = passwords.salted(b"salt", 4096)
    assert salted == salted_password("sha256", b"pencil", b"salt", 4096)
    assert passwords.salted(b"salt", 4096) is salted
    assert passwords.salted(b"other", 4096) != salted
