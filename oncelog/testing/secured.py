"""TLS and a login for a broker of tests: certificates, a user, and what each client needs to be let in.

Owns: the authority and the user, both of one broker object; the settings of both sides. Does not own: the listener's
life (`broker`). Invariant: no key and no password is in a file.
"""

from typing import TYPE_CHECKING, Any, Literal, cast, get_args
from uuid import uuid4

if TYPE_CHECKING:
    from oncelog.client.wire.security import ScramMechanism

__tracebackhide__ = True
Security = Literal[
    "SSL",
    "SASL_PLAINTEXT/PLAIN",
    "SASL_PLAINTEXT/SCRAM-SHA-256",
    "SASL_PLAINTEXT/SCRAM-SHA-512",
    "SASL_SSL/PLAIN",
    "SASL_SSL/SCRAM-SHA-256",
    "SASL_SSL/SCRAM-SHA-512",
]
"""The security of the listener: a security.protocol, or the mechanism of a login."""
ClientStyle = Literal["oncelog", "aiokafka", "kafka-python", "confluent-kafka"]
"""The client whose names of settings are used."""
USER = "test"
OWN_USER = "oncelog-testing"
"""The user by which the broker object itself logs in."""
_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";'


class Secured:
    def __init__(self, security: Security) -> None:
        """Raises ValueError for what is no such security, RuntimeError if a package is missing that it needs."""
        if security not in get_args(Security):
            raise ValueError(f"security={security!r}: it is one of {', '.join(map(repr, get_args(Security)))}")
        self.protocol, _, self.mechanism = security.partition("/")
        self.password = uuid4().hex
        self._own_password = uuid4().hex
        self._pem = _certificates() if self.protocol.endswith("SSL") else None

    @property
    def scram_mechanism(self) -> "ScramMechanism | None":
        """The mechanism of the user, who has to be added to a running broker."""
        return cast("ScramMechanism", self.mechanism) if self.mechanism.startswith("SCRAM") else None

    def broker_settings(self, port: int) -> dict[str, str]:
        """Return the settings of a listener for the clients of a test, and of one for the broker object itself, to
        which no other client can log in."""
        settings = {
            "listeners": f"{self.protocol}://127.0.0.1:{port},OWN://127.0.0.1:0",
            "listener.security.protocol.map": f"{self.protocol}:{self.protocol},OWN:SASL_PLAINTEXT",
            "listener.name.own.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.own.plain.sasl.jaas.config": _JAAS.format(user=OWN_USER, password=self._own_password),
        }
        if self.mechanism:
            settings["sasl.enabled.mechanisms"] = self.mechanism
        if self.mechanism == "PLAIN":
            name = f"listener.name.{self.protocol.lower()}.plain.sasl.jaas.config"
            settings[name] = _JAAS.format(user=USER, password=self.password)
        if self._pem is not None:
            _, key, chain = self._pem
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": key,
                "ssl.keystore.certificate.chain": chain,
            }
        return settings

    def own_settings(self, bootstrap_servers: str) -> dict[str, Any]:
        """Return what the broker object itself needs to connect to its own listener."""
        return {
            "bootstrap_servers": bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": OWN_USER,
            "sasl_password": self._own_password,
        }

    def client_settings(self, bootstrap_servers: str, style: ClientStyle) -> dict[str, Any]:
        """Raises ValueError for a style that is none of the four."""
        if style not in get_args(ClientStyle):
            raise ValueError(f"{style!r}: it is one of {', '.join(map(repr, get_args(ClientStyle)))}")
        authority = self._pem[0] if self._pem is not None else None
        login = (self.mechanism, USER, self.password) if self.mechanism else ()
        if style == "confluent-kafka":
            settings: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, "security.protocol": self.protocol}
            settings |= {"ssl.ca.pem": authority} if authority is not None else {}
            return settings | dict(zip(("sasl.mechanism", "sasl.username", "sasl.password"), login, strict=False))
        settings = {"bootstrap_servers": bootstrap_servers, "security_protocol": self.protocol}
        if style == "oncelog":
            settings |= {"ssl_truststore_certificates": authority} if authority is not None else {}
            return settings | dict(zip(("sasl_mechanism", "sasl_username", "sasl_password"), login, strict=False))
        if authority is not None:
            import ssl

            settings["ssl_context"] = ssl.create_default_context(cadata=authority)
        names = ("sasl_mechanism", "sasl_plain_username", "sasl_plain_password")
        return settings | dict(zip(names, login, strict=False))


def _certificates() -> tuple[str, str, str]:
    """Return an authority's certificate, the broker's key, and its certificates, in PEM."""
    try:
        import trustme
    except ImportError:
        from oncelog.installing import how_to_install

        raise RuntimeError(f"certificates for tests need trustme: run `{how_to_install('testing')}`") from None
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1", "::1")
    chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
    return authority.cert_pem.bytes().decode(), issued.private_key_pem.bytes().decode(), chain.decode()
