"""Key stores and trust stores in PKCS #12, as `keytool` writes them today.

Owns: taking them apart. The package `cryptography` does it, which is installed with `oncelog[security]`; PEM needs
nothing but Python.
"""

from typing import Any

from oncelog.broker.security.tls import KeyMaterial, TlsError


def key_in_pkcs12(data: bytes, location: str, password: str) -> KeyMaterial:
    """Raises TlsError."""
    store, serialization = _open(data, location, password)
    if store.key is None or store.cert is None:
        raise TlsError(f"ssl.keystore.location {location} has no private key with its certificate")
    pem = serialization.Encoding.PEM
    key = store.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificates = [store.cert, *store.additional_certs]
    return KeyMaterial(key, b"".join(each.certificate.public_bytes(pem) for each in certificates))


def certificates_in_pkcs12(data: bytes, location: str, password: str) -> bytes:
    """Return the certificates as PEM. Raises TlsError."""
    store, serialization = _open(data, location, password)
    found = ([store.cert] if store.cert is not None else []) + list(store.additional_certs)
    if not found:
        raise TlsError(f"ssl.truststore.location {location} has no certificates")
    return b"".join(each.certificate.public_bytes(serialization.Encoding.PEM) for each in found)


def _open(data: bytes, location: str, password: str) -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError as error:
        from oncelog.installing import how_to_install

        raise TlsError(
            f"{location} is PKCS #12, which needs another package: {how_to_install('security')}, or convert it with "
            f"`openssl pkcs12 -in {location} -out keystore.pem -nodes` and set the type to PEM"
        ) from error
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None), serialization
    except ValueError as error:
        raise TlsError(
            f"{location} cannot be opened: its password (ssl.….password) is wrong, or it is damaged"
        ) from error
