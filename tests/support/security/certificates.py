"""Certificates for tests: one authority, the broker's certificate for this machine, and clients' with any names."""

from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Certificates:
    """Files in a directory; each is made when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = trustme.CA()

    @cached_property
    def authority_path(self) -> str:
        return self._written("authority.pem", self.authority.cert_pem.bytes())

    @cached_property
    def server_path(self) -> str:
        """Key and chain in one file, as `ssl.keystore.location` has them."""
        return self.issued("server", "localhost", "127.0.0.1")

    @property
    def server_end_s(self) -> int:
        """When the broker's certificate ends."""
        (shown, *_) = x509.load_pem_x509_certificates(Path(self.server_path).read_bytes())
        return int(shown.not_valid_after_utc.timestamp())

    def issued(self, name: str, *identities: str, common_name: str | None = None, ends: datetime | None = None) -> str:
        """Key and chain in a file of that name."""
        issued = self.authority.issue_cert(
            *identities, common_name=common_name, organization_unit_name="tests", not_after=ends
        )
        return self._written(f"{name}.pem", issued.private_key_and_cert_chain_pem.bytes())

    def client(self, common_name: str) -> str:
        """Key and chain of a client."""
        return self.issued(f"client-{common_name}", f"{common_name}.example", common_name=common_name)

    def self_signed(self, name: str, common_name: str) -> str:
        """Key and certificate in a file of that name; the certificate has signed itself."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        begins = datetime(2020, 1, 1)
        certificate = (
            x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
            .not_valid_before(begins)
            .not_valid_after(begins + timedelta(days=36_500))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(key, hashes.SHA256())
        )
        pem = serialization.Encoding.PEM
        secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return self._written(f"{name}.pem", secret + certificate.public_bytes(pem))

    def server_settings(self, *, client_auth: str = "none") -> dict[str, str]:
        """The broker's settings for TLS."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.server_path,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority_path,
            "ssl.client.auth": client_auth,
        }

    def _written(self, name: str, data: bytes) -> str:
        path = self.directory / name
        path.write_bytes(data)
        return str(path)
