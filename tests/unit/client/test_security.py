"""The options of TLS and SASL: what makes no sense is named at once, and no secret is shown."""

import contextlib
import dataclasses
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from oncelog.client import Admin, ConfigError, Consumer, Producer, TransactionalSession
from oncelog.client.admin.settings import AdminSettings
from oncelog.client.options.settings import ConsumerSettings
from oncelog.client.wire.sasl import PasswordLogins
from oncelog.client.wire.security import SecuritySettings, security_of
from tests.support.security.certificates import Certificates

SASL: dict[str, Any] = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
ALICE = {"sasl_username": "alice", "sasl_password": "hunter2"}
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Stores that a program may name, right and wrong."""
    directory = tmp_path_factory.mktemp("stores")
    authority = trustme.CA()
    client = authority.issue_cert("client@example.com")
    other = authority.issue_cert("other@example.com")
    contents = {
        "ca.pem": authority.cert_pem.bytes(),
        "client.pem": client.private_key_and_cert_chain_pem.bytes(),
        "key-only.pem": client.private_key_pem.bytes(),
        "mixed.pem": other.private_key_pem.bytes() + client.cert_chain_pems[0].bytes(),
        "store.jks": b"\xfe\xed\xfe\xed\x00\x00\x00\x02",
        "store.p12": b"\x30\x82\x0a\x00\x02\x01\x03",
        "empty.pem": b"",
    }
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return {name: str(directory / name) for name in (*contents, "missing.pem")}


def refused(said: str, **options: Any) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        security_of(AdminSettings(**options))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"security_protocol": "TLS"}, "must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'"),
        ({"security_protocol": "SASL_SSL"}, "needs sasl_mechanism"),
        (SASL, "PLAIN needs sasl_username and sasl_password"),
        ({**SASL, "sasl_username": "alice", "sasl_password": ""}, "which must not be empty"),
        ({**SASL, "sasl_username": "a\0b", "sasl_password": "hunter2"}, "must not contain NUL"),
        (
            {**SASL, "sasl_mechanism": "GSSAPI"},
            "must be one of 'PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'",
        ),
        ({**SASL, "sasl_mechanism": "OAUTHBEARER"}, "needs sasl_oauth_token_provider"),
        (ALICE, r"sasl_username has no meaning with security_protocol='PLAINTEXT' \(security_protocol='SASL_SSL'"),
        ({"ssl_truststore_location": "ca.pem"}, r"has no meaning with security_protocol='PLAINTEXT'"),
        ({**SASL, **ALICE, "ssl_endpoint_identification_algorithm": ""}, "has no meaning with .*'SASL_PLAINTEXT'"),
        ({**SASL, **ALICE, "sasl_jaas_config": "x"}, "sasl_jaas_config excludes"),
        ({**SASL, "sasl_tokenauth": True, "sasl_jaas_config": "x"}, "sasl_jaas_config excludes"),
        ({**SASL, **ALICE, "sasl_tokenauth": True}, "a delegation token logs in by SCRAM, not by PLAIN"),
        ({"security_protocol": "SSL", "ssl_key_password": "hunter2"}, "ssl_key_password needs ssl_keystore_location"),
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_key_password": "hunter2"},
            "ssl_context and ssl_key_password exclude each other",
        ),
        ({"security_protocol": "SSL", "ssl_truststore_certificates": "none"}, "has no certificates in PEM"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], said: str) -> None:
    refused(said, **options)


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("ssl_truststore_location", "missing.pem", "no such file or directory"),
        ("ssl_truststore_location", "store.jks", r"is a JKS store, .*keytool -importkeystore"),
        ("ssl_truststore_location", "store.p12", r"is a PKCS12 store, .*openssl pkcs12"),
        ("ssl_truststore_location", "key-only.pem", "has no CERTIFICATE in PEM"),
        ("ssl_truststore_location", "empty.pem", "has no CERTIFICATE in PEM"),
        ("ssl_keystore_location", "ca.pem", "has no PRIVATE KEY in PEM"),
        ("ssl_keystore_location", "key-only.pem", "has no CERTIFICATE in PEM"),
        ("ssl_keystore_location", "mixed.pem", "key values mismatch"),
    ],
)
def test_a_store_that_cannot_be_used_is_named_with_the_reason(
    files: dict[str, str], option: str, name: str, said: str
) -> None:
    refused(said, security_protocol="SSL", **{option: files[name]})


def test_certificates_and_their_names_are_checked_unless_the_program_says_otherwise(files: dict[str, str]) -> None:
    settings = SecuritySettings(security_protocol="SSL", ssl_truststore_location=files["ca.pem"])
    context = security_of(settings).context
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    unnamed = security_of(dataclasses.replace(settings, ssl_endpoint_identification_algorithm="")).context
    assert unnamed is not None
    assert (unnamed.verify_mode, unnamed.check_hostname) == (ssl.CERT_REQUIRED, False)


def test_each_certificate_in_the_trust_store_is_trusted_also_of_several_with_the_same_name(tmp_path: Path) -> None:
    servers = [Certificates(tmp_path).self_signed(f"same-{each}", "renewed") for each in range(2)]
    trusted = tmp_path / "trusted.pem"
    trusted.write_text("".join(Path(each).read_text() for each in servers))
    settings = SecuritySettings(security_protocol="SSL", ssl_truststore_location=str(trusted))
    context = security_of(settings).context
    assert context is not None
    for each in servers:
        shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(each)
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        ends = (
            context.wrap_bio(to_client, to_server, server_hostname="localhost"),
            shown.wrap_bio(to_server, to_client, server_side=True),
        )
        for end in ends * 2:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
        assert ends[0].getpeercert()


def test_a_context_of_the_program_is_taken_as_it_is() -> None:
    context = ssl.create_default_context()
    assert security_of(SecuritySettings(security_protocol="SSL", ssl_context=context)).context is context


@pytest.mark.parametrize(
    ("line", "password"),
    [
        (f'{MODULE} required username="alice" password="hunter2";', "hunter2"),
        (f"  {MODULE}  required\n  password='hunter2'\n  username=alice ; ", "hunter2"),
        (f'{MODULE} required username="alice" password="hun\\"ter\\\\2;=";', 'hun"ter\\2;='),
        (f'{MODULE} required serviceName="kafka" username="alice" password="hunter2";', "hunter2"),
    ],
)
def test_a_line_of_jaas_is_read_as_people_copy_it(line: str, password: str) -> None:
    logins = security_of(SecuritySettings(**SASL, sasl_jaas_config=line)).logins
    assert isinstance(logins, PasswordLogins)
    assert logins._exchange().first() == f"\0alice\0{password}".encode()


@pytest.mark.parametrize(
    ("more", "is_token"),
    [('tokenauth="true"', True), ("tokenauth=TRUE", True), ('tokenauth="false"', False), ("", False)],
)
def test_a_line_of_jaas_may_say_that_this_is_a_token(more: str, is_token: bool) -> None:
    line = f'{SCRAM_MODULE} required username="id" password="hmac" {more};'
    options: dict[str, Any] = {**SASL, "sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": line}
    logins = security_of(SecuritySettings(**options)).logins
    assert isinstance(logins, PasswordLogins)
    assert logins._exchange().first().endswith(b",tokenauth=true") is is_token


@pytest.mark.parametrize(
    "line",
    [
        "",
        f'{MODULE} required username="alice" password="hunter2"',
        f'{MODULE} optional username="alice" password="hunter2";',
        f'{SCRAM_MODULE} required username="alice" password="hunter2";',
        f'{MODULE} required username="alice" password="hunter2;',
    ],
)
def test_another_line_is_refused_and_not_shown(line: str) -> None:
    refused("sasl_jaas_config: PLAIN needs one entry of PlainLoginModule", **SASL, sasl_jaas_config=line)


def test_no_repr_shows_a_secret() -> None:
    settings = ConsumerSettings(
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_jaas_config=None,
        ssl_key_password="hunter2",
        ssl_keystore_location="key.pem",
        **ALICE,
    )
    shown = repr(settings)
    assert "alice" in shown
    assert "hunter2" not in shown
    logins = PasswordLogins("PLAIN", "alice", "hunter2")
    assert "hunter2" not in repr((logins, logins._exchange()))


@pytest.mark.parametrize(
    "make",
    [
        lambda options: Producer(**options),
        lambda options: Consumer(**options),
        lambda options: Admin(**options),
        lambda options: TransactionalSession("topic", group_id="group", **options),
    ],
    ids=["Producer", "Consumer", "Admin", "TransactionalSession"],
)
def test_every_client_looks_at_its_files_when_it_is_made(make: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl_truststore_location=.*no such file"):
        make({"security_protocol": "SSL", "ssl_truststore_location": str(tmp_path / "none.pem")})


def test_a_session_gives_its_clients_the_options_itself() -> None:
    with pytest.raises(ConfigError, match=r"sasl_password belongs to the session") as caught:
        TransactionalSession("topic", group_id="group", consumer={"sasl_password": "hunter2"})  # type: ignore[typeddict-unknown-key]
    assert "hunter2" not in str(caught.value)
