"""SCRAM as the RFCs have it, and what it refuses."""

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.broker.security.mechanisms import AuthenticationFailed, Challenge, Success
from oncelog.broker.security.scram import (
    SCRAM_MECHANISMS,
    Credential,
    Scram,
    ScramMechanism,
    ScramUsers,
)
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord
from tests.clients.scram_client import ScramClient, keys

MECHANISMS = pytest.mark.parametrize("mechanism", SCRAM_MECHANISMS.values(), ids=lambda each: each.name)
SHA_256 = SCRAM_MECHANISMS["SCRAM-SHA-256"]
ALICE, PASSWORD = "alice", "pencil"


def users(
    mechanism: ScramMechanism, *names: str, iterations: int = 4_096, salt: bytes = b"salt", nonce: str = "server-nonce"
) -> ScramUsers:
    made = keys(mechanism, PASSWORD, salt, iterations)
    known: dict[tuple[str, int], Credential] = {
        (name, mechanism.number): UserScramCredentialRecord(
            name=name,
            mechanism=mechanism.number,
            salt=salt,
            stored_key=made.stored_key,
            server_key=made.server_key,
            iterations=iterations,
        )
        for name in names
    }
    return ScramUsers(known, b"secret", lambda: nonce)


def log_in(client: ScramClient, mechanism: ScramMechanism, known: ScramUsers, **changes: str) -> Success:
    conversation = Scram(mechanism, known).begin()
    challenge = conversation.evaluate(client.first)
    assert isinstance(challenge, Challenge)
    outcome = conversation.evaluate(client.final(challenge.token, **changes))
    assert isinstance(outcome, Success)
    assert outcome.token == client.expected, "the broker proves that it knows the keys, too"
    return outcome


@MECHANISMS
def test_a_client_that_knows_the_password_is_the_user(mechanism: ScramMechanism) -> None:
    assert log_in(ScramClient(mechanism, ALICE, PASSWORD), mechanism, users(mechanism, ALICE)).user == ALICE


def test_the_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    known = users(SHA_256, "user", salt=salt, nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    conversation = Scram(SHA_256, known).begin()
    assert conversation.evaluate(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").token == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert conversation.evaluate(final).token == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(("written", "user"), [("a=2Cb=3Dc", "a,b=c"), ("zoë", "zoë")])
def test_commas_and_equal_signs_in_names_are_escaped(written: str, user: str) -> None:
    assert log_in(ScramClient(SHA_256, written, PASSWORD), SHA_256, users(SHA_256, user)).user == user


def with_authorization(text: str) -> Callable[[ScramClient], None]:
    def change(client: ScramClient) -> None:
        client.header = f"n,a={text},"

    return change


def test_a_client_may_name_itself_as_the_identity_it_acts_as() -> None:
    client = ScramClient(SHA_256, ALICE, PASSWORD)
    with_authorization(ALICE)(client)
    assert log_in(client, SHA_256, users(SHA_256, ALICE)).user == ALICE


@MECHANISMS
@pytest.mark.parametrize(
    ("user", "password", "change", "final"),
    [
        (ALICE, "wrong", None, {}),
        (ALICE, "", None, {}),
        ("nobody", PASSWORD, None, {}),
        ("ALICE", PASSWORD, None, {}),
        # CVE-2017-12610: a user acts as another.
        (ALICE, PASSWORD, with_authorization("bob"), {}),
        # kroxylicious#4683: so does one who does not exist.
        ("nobody", PASSWORD, with_authorization("bob"), {}),
        # CVE-2024-56128: the final nonce was not compared.
        (ALICE, PASSWORD, None, {"nonce_suffix": "x"}),
        # librdkafka#4895: the client's nonce is there twice.
        (ALICE, PASSWORD, None, {"nonce_suffix": "client-nonceserver-nonce"}),
        (ALICE, PASSWORD, None, {"binding": "y,,"}),
    ],
)
def test_every_other_login_fails_at_the_second_message_with_one_text(
    mechanism: ScramMechanism,
    user: str,
    password: str,
    change: Callable[[ScramClient], None] | None,
    final: dict[str, str],
) -> None:
    client = ScramClient(mechanism, user, password)
    if change is not None:
        change(client)
    text = (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism " + mechanism.name
    )
    with pytest.raises(AuthenticationFailed, match=f"{text}$"):
        log_in(client, mechanism, users(mechanism, ALICE, "bob"), **final)


@MECHANISMS
def test_an_unknown_user_is_challenged_like_the_known_ones_and_each_time_the_same(mechanism: ScramMechanism) -> None:
    """kroxylicious#4683: as in Kafka, an unknown user failed at the first message, a known one at the second."""
    known = users(mechanism, ALICE, iterations=8_192, salt=b"s" * 20)

    def challenge(user: str) -> dict[str, str]:
        token = Scram(mechanism, known).begin().evaluate(ScramClient(mechanism, user, "").first).token
        return dict(part.split("=", 1) for part in token.decode().split(","))

    real, nobody, another = challenge(ALICE), challenge("nobody"), challenge("another")
    assert (real["i"], len(real["s"]), real["r"]) == (nobody["i"], len(nobody["s"]), nobody["r"])
    assert nobody == challenge("nobody")
    assert len({real["s"], nobody["s"], another["s"]}) == 3


def test_an_unknown_user_costs_the_same_however_many_there_are() -> None:
    """The time of the answer would otherwise show which users there are."""
    looks = 0

    class Known(dict[tuple[str, int], Any]):
        def items(self) -> Any:
            nonlocal looks
            looks += 1
            return super().items()

    found = ScramUsers(Known(), b"secret", lambda: "nonce")
    for number in range(10):
        found.find(f"nobody {number}", SHA_256)
    assert looks == 1
    found.on_change()
    found.find("nobody", SHA_256)
    assert looks == 2


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n,,n=alice",
        b"n,,r=x,n=alice",
        b"n,,n=,r=x",
        b"n,,n=alice,r=",
        b"n,,n=al=ice,r=x",
        b"n,,n=al=2cice,r=x",
        b"y,,n=alice,r=x",
        b"p=tls-exporter,,n=alice,r=x",
        b"n,,n=alice,r=\xff",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=x,",
    ],
)
def test_what_is_no_first_message_fails(token: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        Scram(SHA_256, users(SHA_256, ALICE)).begin().evaluate(token)


@given(st.binary(max_size=80) | st.text(max_size=80).map(str.encode), st.integers(0, 200), st.integers(0, 255))
def test_no_other_final_message_succeeds(token: bytes, position: int, byte: int) -> None:
    client = ScramClient(SHA_256, ALICE, PASSWORD)
    known = users(SHA_256, ALICE)
    conversation = Scram(SHA_256, known).begin()
    right = client.final(conversation.evaluate(client.first).token)
    changed = bytearray(right)
    changed[position % len(right)] = byte
    for final in (token, bytes(changed)):
        conversation = Scram(SHA_256, known).begin()
        conversation.evaluate(client.first)
        if final != right:
            with pytest.raises(AuthenticationFailed):
                conversation.evaluate(final)


def test_a_conversation_takes_one_final_message() -> None:
    client = ScramClient(SHA_256, ALICE, PASSWORD)
    conversation = Scram(SHA_256, users(SHA_256, ALICE)).begin()
    final = client.final(conversation.evaluate(client.first).token)
    assert isinstance(conversation.evaluate(final), Success)
    with pytest.raises(AuthenticationFailed):
        conversation.evaluate(final)


def test_an_unknown_user_has_a_salt_for_each_mechanism_as_known_ones_do() -> None:
    """One salt for both mechanisms would show that a user is unknown: a known user's are random, each its own."""
    nobodys = ScramUsers({}, b"secret", lambda: "nonce")
    salts = {nobodys.find("nobody", each)[0].salt for each in SCRAM_MECHANISMS.values()}
    assert len(salts) == 2


@pytest.mark.parametrize(
    "token", [b"n,,n=alice,r=" + b"x" * 500_000, b"n,,n=" + "\N{PARTY POPPER}".encode() * 100_000 + b",r=x"]
)
def test_a_message_that_is_not_needed_is_not_kept_until_the_next_one(token: bytes) -> None:
    """It is held until the client sends its proof, which may be as late as the end of its time to log in."""
    with pytest.raises(AuthenticationFailed):
        Scram(SHA_256, users(SHA_256, ALICE)).begin().evaluate(token)


def test_a_name_as_long_as_the_credentials_of_brokers_have_it_logs_in() -> None:
    name = "a" * 4_096
    assert log_in(ScramClient(SHA_256, name, PASSWORD), SHA_256, users(SHA_256, name)).user == name
