"""The TLS of one listener: from its settings to an `ssl.SSLContext`.

Owns: what the settings of `ssl.*` mean, reading keys and certificates (PEM in files or inline, KIP-651; PKCS #12).
Does not own: connections (`broker.net.tls`), when certificates are read again (`broker.security.listener_security`).
Invariants
- A context is made of settings that are complete, or not at all: TlsError names the setting and what to write.
- A private key that was given inline, or taken out of a PKCS #12 file, is written to no disk: OpenSSL reads it from
  memory of this process where the system has that, else from a file that only this user may read and that is removed.
"""

import binascii
import errno
import os
import re
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.security.certificate import Names, certificate_names

Read = Callable[[str], str]
"""Returns a setting of a listener by its name; empty if it is not set."""

_MOST_STORE_BYTES = 1 << 20
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_PEM_MARK = b"-----BEGIN "
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_SAFE_SUITES = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Suites with forward secrecy and authenticated encryption, as Mozilla's "intermediate". OpenSSL's own choice has CBC
as well, which every client of this decade can do without."""
_SUITE = re.compile(r"TLS_(\w+?)_WITH_(\w+)\Z")
_CERTIFICATE = re.compile(rb"-----BEGIN ((?:TRUSTED |X509 )?CERTIFICATE)-----([^-]*)-----END \1-----")
"""A certificate in each form in which OpenSSL reads the one that belongs to a key."""
_TLS_1_3_SUITE = re.compile(r"TLS_(AES|CHACHA20)_\w+\Z")
_CONVERT = {
    "keystore": "keytool -importkeystore -srckeystore {path} -destkeystore {stem}.p12 -deststoretype PKCS12",
    "truststore": "keytool -importkeystore -srckeystore {path} -destkeystore {stem}.p12 -deststoretype PKCS12",
}


class TlsError(Exception):
    """Raised if the settings of TLS are not usable; the message names one of them and what to write."""


@dataclass(frozen=True, slots=True)
class KeyMaterial:
    """A private key and certificates, as PEM."""

    key: bytes = field(repr=False)
    """The private key; if it is encrypted, `password` opens it."""
    chain: bytes = field(repr=False)
    """The certificate chain, the broker's own certificate first."""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The TLS settings of one listener, with the contents of their files."""

    key: KeyMaterial
    names: Names
    """The names in the broker's certificate."""
    trusted: bytes = field(repr=False)
    """The trusted certificates as PEM; empty where clients show none."""
    client_auth: str
    versions: tuple[str, ...]
    ciphers: str
    """The cipher suites as OpenSSL writes them; all safe ones if it is empty."""


def read_tls_settings(config: BrokerConfig, listener_name: str, *, with_sasl: bool) -> TlsSettings:
    """Read a listener's TLS settings. With SASL, clients log in by that: `ssl.client.auth` counts only with the prefix
    of the listener, as in Kafka (KIP-684). Raises TlsError."""

    def read(key: str) -> str:
        return config.get_of_listener(listener_name, key)

    client_auth = read("ssl.client.auth")
    if with_sasl and config.get_only_of_listener(listener_name, "ssl.client.auth") is None:
        client_auth = "none"
    trusted = _read_trusted(read)
    if client_auth != "none" and not trusted:
        raise TlsError(
            f"ssl.client.auth is {client_auth}, and ssl.truststore.location is not set: write the file with the "
            "certificates that clients' are signed with, and ssl.truststore.type=PEM"
        )
    key = _read_key(read)
    return TlsSettings(
        key,
        _names(key),
        trusted,
        client_auth,
        tuple(_items(read("ssl.enabled.protocols"))),
        ":".join(_openssl_names(_items(read("ssl.cipher.suites")))),
    )


def check_replacement(before: TlsSettings, after: TlsSettings, *, other_dn: bool, other_san: bool) -> None:
    """Check that a replacement certificate is of the same broker, as Kafka does: clients may know it by its name.
    Raises TlsError."""
    old, new = before.names, after.names
    if not other_dn and new.distinguished_name != old.distinguished_name:
        raise TlsError(
            f"Keystore DistinguishedName does not match: existing={old.distinguished_name}, "
            f"new={new.distinguished_name}; ssl.allow.dn.changes=true allows it"
        )
    if not other_san and not new.alternative_names >= old.alternative_names:
        raise TlsError(
            "Keystore SubjectAltNames do not match: the new certificate lacks names of the existing one; "
            "ssl.allow.san.changes=true allows it"
        )


def differences(before: TlsSettings, after: TlsSettings) -> list[str]:
    """Return what is not the same, in words."""
    found = []
    if after.key != before.key:
        end = time.strftime("%Y-%m-%d", time.gmtime(after.names.end_s))
        found.append(f"a key and certificate, which ends on {end}")
    if after.trusted != before.trusted:
        found.append("the certificates that it trusts")
    return found or ["the settings of TLS"]


def make_context(settings: TlsSettings) -> ssl.SSLContext:
    """Raises TlsError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in settings.versions]
    if not versions:
        raise TlsError("ssl.enabled.protocols is empty: write ssl.enabled.protocols=TLSv1.2,TLSv1.3")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    # Java clients resume once; so one ticket. Measured: 0.19 ms of OpenSSL, 0.27 with two.
    context.num_tickets = 1
    try:
        context.set_ciphers(settings.ciphers or _SAFE_SUITES)
    except ssl.SSLError as error:
        raise TlsError(f"ssl.cipher.suites: OpenSSL knows none of {settings.ciphers}") from error
    _load_key(context, settings.key)
    if settings.client_auth != "none":
        try:
            context.load_verify_locations(cadata=settings.trusted.decode("ascii"))
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise TlsError(f"ssl.truststore: its certificates cannot be read ({error})") from error
        # Each certificate in the trust store is trusted, as by Java. Without this OpenSSL takes the first of several
        # with the same name for the one that signed: a client whose self-signed certificate was renewed is refused.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    return context


def _load_key(context: ssl.SSLContext, material: KeyMaterial) -> None:
    try:
        with _as_file(material.key + b"\n" + material.chain) as path:
            # Without a password here OpenSSL would ask for one at the terminal.
            context.load_cert_chain(path, password=lambda: material.password)
    except ssl.SSLError as error:
        hint = "the key does not belong to the first certificate"
        if error.reason != "KEY_VALUES_MISMATCH":
            hint = "is it PEM with a key and a certificate"
            is_encrypted = b"ENCRYPTED" in material.key
            hint += ", and does ssl.key.password open the key?" if is_encrypted else "?"
        raise TlsError(f"ssl.keystore: the key and its certificates cannot be used: {hint}") from error


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Yield the path of a file that has these bytes as long as the block runs."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("oncelog-key", os.MFD_CLOEXEC)
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(data)
        file.flush()
        yield file.name


# --- key stores -------------------------------------------------------------------------------------------------------


def _read_key(read: Read) -> KeyMaterial:
    location, key, chain = (read(f"ssl.keystore.{name}") for name in ("location", "key", "certificate.chain"))
    password = read("ssl.key.password")
    if key or chain:
        if location:
            raise TlsError("ssl.keystore.location and ssl.keystore.key are both set: remove one of them")
        if not (key and chain):
            raise TlsError("ssl.keystore.key and ssl.keystore.certificate.chain belong together: set both")
        _check_type("keystore", read("ssl.keystore.type"), "PEM")
        return KeyMaterial(_pem(key), _pem(chain), password)
    if not location:
        raise TlsError(
            "TLS needs a key and a certificate: set ssl.keystore.type=PEM and ssl.keystore.location to a file with both"
        )
    data = _read_store("keystore", location, read("ssl.keystore.type"))
    if data.startswith(_PEM_MARK):
        _refuse_password("keystore", read)
        return KeyMaterial(data, b"", password)
    from oncelog.broker.security.pkcs12 import key_in_pkcs12

    return key_in_pkcs12(data, location, read("ssl.keystore.password"))


def _names(material: KeyMaterial) -> Names:
    """Read what the first certificate says. Raises TlsError."""
    found = _CERTIFICATE.search(material.key + b"\n" + material.chain)
    try:
        return certificate_names(binascii.a2b_base64(found[2] if found else b""))
    except ValueError as error:
        raise TlsError(
            "ssl.keystore: it has no certificate that can be read: is it PEM with a key and a certificate?"
        ) from error


def _read_trusted(read: Read) -> bytes:
    location, certificates = read("ssl.truststore.location"), read("ssl.truststore.certificates")
    if certificates:
        if location:
            raise TlsError("ssl.truststore.location and ssl.truststore.certificates are both set: remove one of them")
        _check_type("truststore", read("ssl.truststore.type"), "PEM")
        return _pem(certificates)
    if not location:
        return b""
    data = _read_store("truststore", location, read("ssl.truststore.type"))
    if data.startswith(_PEM_MARK):
        _refuse_password("truststore", read)
        return data
    from oncelog.broker.security.pkcs12 import certificates_in_pkcs12

    return certificates_in_pkcs12(data, location, read("ssl.truststore.password"))


def _refuse_password(store: str, read: Read) -> None:
    if read(f"ssl.{store}.password"):
        raise TlsError(
            f"ssl.{store}.password is for PKCS #12 files: remove it; the key in a PEM file has ssl.key.password"
        )


def _check_type(store: str, stated: str, actual: str) -> None:
    if stated.upper() != actual:
        raise TlsError(f"ssl.{store}.type is {stated}, and {actual} is given: write ssl.{store}.type={actual}")


def _read_store(store: str, location: str, stated: str) -> bytes:
    """Return the bytes of PEM or PKCS #12, which begin as such. Java reads PKCS #12 as JKS, too."""
    try:
        data = _read_file(location)
    except OSError as error:
        raise TlsError(f"ssl.{store}.location {location}: {error.strerror or error}") from error
    if data.startswith(_JKS_MAGIC):
        stem = location.removesuffix(".jks")
        command = _CONVERT[store].format(path=location, stem=stem)
        raise TlsError(
            f"ssl.{store}.location {location} is a Java key store (JKS), which only Java reads: convert it with "
            f"`{command}` and set ssl.{store}.location={stem}.p12, ssl.{store}.type=PKCS12"
        )
    mark = data.find(_PEM_MARK)
    if mark >= 0:
        _check_type(store, stated, "PEM")
        return data[mark:]
    if not data.startswith(b"\x30"):
        raise TlsError(f"ssl.{store}.location {location} is neither PEM nor PKCS #12")
    if stated.upper() != "JKS":
        _check_type(store, stated, "PKCS12")
    return data


def _read_file(location: str) -> bytes:
    """Read a regular file; raises OSError for one that may block or has no end, as settings change while the broker
    runs."""
    if not Path(location).is_file():
        raise OSError("it is not a regular file" if Path(location).exists() else os.strerror(errno.ENOENT))
    with open(location, "rb") as file:
        data = file.read(_MOST_STORE_BYTES + 1)
    if len(data) > _MOST_STORE_BYTES:
        raise OSError(f"it has more than {_MOST_STORE_BYTES:,} bytes")
    return data


def _pem(text: str) -> bytes:
    """Return inline PEM as OpenSSL reads it: in a file of properties it is often written in one line."""
    if not text.startswith("-----BEGIN "):
        raise TlsError(
            "ssl.keystore.key, .certificate.chain and ssl.truststore.certificates must begin with -----BEGIN"
        )
    blocks = re.findall(r"(-----BEGIN [A-Z0-9 ]+-----)([^-]*)(-----END [A-Z0-9 ]+-----)", text)
    return "".join("{}\n{}\n{}\n".format(head, "\n".join(body.split()), foot) for head, body, foot in blocks).encode()


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _openssl_names(suites: list[str]) -> list[str]:
    """Return OpenSSL's names of suites. Python cannot choose among the three of TLS 1.3, all of them safe."""
    names = []
    for suite in suites:
        match = _SUITE.match(suite)
        if match is not None:
            exchange, cipher = match[1].replace("_", "-"), match[2].replace("_CBC", "").replace("AES_", "AES")
            if "CHACHA20" in cipher:
                cipher = "CHACHA20_POLY1305"
            cipher = cipher.replace("_", "-")
            names.append(cipher if exchange == "RSA" else f"{exchange}-{cipher}")
        elif not _TLS_1_3_SUITE.match(suite):
            names.append(suite)
    return names
