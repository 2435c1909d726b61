"""Settings of TLS become a context of OpenSSL, or an error that says what to write."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from oncelog.broker.config.settings import load_config
from oncelog.broker.security.tls import TlsError, TlsSettings, make_context, read_tls_settings
from tests.support.security.certificates import Certificates


def read(settings: Mapping[str, str], *, with_sasl: bool = False) -> TlsSettings:
    config, _ = load_config(cli={"listeners": "SSL://127.0.0.1:0", **settings})
    return read_tls_settings(config, "SSL", with_sasl=with_sasl)


def split(pem: str) -> tuple[str, str]:
    """Key and chain."""
    key, mark, rest = pem.partition("-----BEGIN CERTIFICATE-----")
    return key, mark + rest


def test_a_key_and_its_chain_are_read_from_one_pem_file(certificates: Certificates) -> None:
    settings = read(certificates.server_settings(client_auth="required"))
    make_context(settings)
    assert (settings.client_auth, settings.versions) == ("required", ("TLSv1.2", "TLSv1.3"))


@pytest.mark.parametrize(
    ("label", "after"),
    [
        ("CERTIFICATE", b""),
        ("X509 CERTIFICATE", b""),
        ("TRUSTED CERTIFICATE", b""),
        ("TRUSTED CERTIFICATE", b"\x30\x03\x0c\x01x"),
    ],
)
def test_a_certificate_is_read_in_each_form_that_openssl_loads(
    certificates: Certificates, tmp_path: Path, label: str, after: bytes
) -> None:
    """A trusted one has its uses after it. What the certificate says is read with the settings, once."""
    expected = read(certificates.server_settings()).names
    key, chain = split(Path(certificates.server_path).read_text())
    der = ssl.PEM_cert_to_DER_cert(chain[: chain.index("-----END")] + "-----END CERTIFICATE-----\n")
    written = ssl.DER_cert_to_PEM_cert(der + after).replace(" CERTIFICATE", f" {label}")
    (tmp_path / "server.pem").write_text(key + written)
    settings = read({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")})
    make_context(settings)
    assert settings.names == expected


def test_a_certificate_that_only_openssl_reads_is_refused_with_the_settings(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate in use never fails later, when a watch asks for its end."""

    def unreadable(der: bytes) -> None:
        raise ValueError("this is no certificate")

    monkeypatch.setattr("oncelog.broker.security.tls.certificate_names", unreadable)
    with pytest.raises(TlsError, match="no certificate that can be read"):
        read(certificates.server_settings())


@pytest.mark.parametrize("in_one_line", [False, True])
def test_a_key_and_its_chain_may_stand_in_the_settings_themselves(
    certificates: Certificates, in_one_line: bool
) -> None:
    key, chain = split(Path(certificates.server_path).read_text())
    if in_one_line:
        key, chain = " ".join(key.split("\n")), " ".join(chain.split("\n"))
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain}
    make_context(read(settings))


def test_the_prefix_of_the_listener_comes_before_the_general_setting(certificates: Certificates) -> None:
    settings = {**certificates.server_settings(), "listener.name.ssl.ssl.enabled.protocols": "TLSv1.3"}
    assert read(settings).versions == ("TLSv1.3",)


def test_with_sasl_only_the_prefixed_client_auth_counts(certificates: Certificates) -> None:
    settings = certificates.server_settings(client_auth="required")
    assert read(settings, with_sasl=True).client_auth == "none"
    assert (
        read({**settings, "listener.name.ssl.ssl.client.auth": "requested"}, with_sasl=True).client_auth == "requested"
    )


@pytest.mark.parametrize("password", ["secret", ""])
def test_pkcs12_is_read_as_keytool_and_openssl_write_it(
    certificates: Certificates, tmp_path: Path, password: str
) -> None:
    key_pem, chain_pem = split(Path(certificates.server_path).read_text())
    key = serialization.load_pem_private_key(key_pem.encode(), None)
    certificate, *others = x509.load_pem_x509_certificates(chain_pem.encode())
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    (tmp_path / "server.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"x", key, certificate, others, encryption)  # type: ignore[arg-type]
    )
    settings = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": str(tmp_path / "server.p12")}
    if password:
        settings["ssl.keystore.password"] = password
    make_context(read(settings))
    with pytest.raises(TlsError, match="password"):
        read({**settings, "ssl.keystore.password": "wrong"})


def test_an_encrypted_key_is_opened_by_its_password_and_never_asked_for_at_the_terminal(
    certificates: Certificates, tmp_path: Path
) -> None:
    key_pem, chain = split(Path(certificates.server_path).read_text())
    key = serialization.load_pem_private_key(key_pem.encode(), None)
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encrypted = key.private_bytes(*pem, serialization.BestAvailableEncryption(b"secret")).decode()
    (tmp_path / "server.pem").write_text(encrypted + chain)
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "server.pem")}
    make_context(read({**settings, "ssl.key.password": "secret"}))
    for others in ({}, {"ssl.key.password": "wrong"}):
        with pytest.raises(TlsError, match=r"ssl\.key\.password"):
            make_context(read({**settings, **others}))


def test_a_java_key_store_is_refused_with_the_command_that_converts_it(tmp_path: Path) -> None:
    (tmp_path / "server.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(TlsError, match=r"keytool -importkeystore .*server\.p12 -deststoretype PKCS12"):
        read({"ssl.keystore.location": str(tmp_path / "server.jks")})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ssl.keystore.location": ""}, "TLS needs a key"),
        ({"ssl.keystore.location": "/not/there.pem"}, "No such file"),
        ({"ssl.keystore.type": "JKS"}, r"write ssl\.keystore\.type=PEM"),
        ({"ssl.keystore.key": "x"}, "both set"),
        ({"ssl.keystore.location": "", "ssl.keystore.key": "x"}, "belong together"),
        ({"ssl.keystore.password": "x"}, r"ssl\.key\.password"),
        ({"ssl.truststore.password": "x"}, "PKCS #12"),
        ({"ssl.truststore.location": "", "ssl.client.auth": "required"}, r"ssl\.truststore\.location is not set"),
        ({"ssl.enabled.protocols": ""}, "is empty"),
        ({"ssl.cipher.suites": "TLS_NOTHING"}, "knows none"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_what_to_write(
    certificates: Certificates, change: dict[str, str], problem: str
) -> None:
    with pytest.raises(TlsError, match=problem):
        make_context(read({**certificates.server_settings(), **change}))


def test_suites_go_by_their_names_in_kafkas_files(certificates: Certificates) -> None:
    suites = (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    )
    settings = {**certificates.server_settings(), "ssl.cipher.suites": suites, "ssl.enabled.protocols": "TLSv1.2"}
    chosen = {cipher["name"] for cipher in make_context(read(settings)).get_ciphers()}
    assert {name for name in chosen if not name.startswith("TLS_")} == {
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    }


def test_no_secret_is_in_the_representation_of_settings(certificates: Certificates) -> None:
    assert "PRIVATE KEY" not in repr(read(certificates.server_settings()))


@pytest.mark.parametrize("store", ["keystore", "truststore"])
def test_a_store_that_is_no_file_of_its_size_is_refused_before_it_is_read(
    certificates: Certificates, tmp_path: Path, store: str
) -> None:
    """It may be set while the broker runs: a pipe would hold up every client, /dev/zero fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"-----BEGIN CERTIFICATE-----" + bytes(2 << 20))
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path, tmp_path / "large"):
        with pytest.raises(TlsError, match=rf"ssl\.{store}\.location {path}"):
            read({**certificates.server_settings(), f"ssl.{store}.location": str(path)})


def test_by_default_suites_are_with_forward_secrecy_and_authenticated_encryption(certificates: Certificates) -> None:
    ciphers = make_context(read(certificates.server_settings())).get_ciphers()
    assert len(ciphers) >= 7
    assert [cipher["name"] for cipher in ciphers if not cipher["aead"]] == []
    older = [cipher["name"] for cipher in ciphers if not cipher["name"].startswith("TLS_")]
    assert older and all(name.startswith("ECDHE-") for name in older)
