"""A broker with a listener of each security protocol, and what a client needs for each: certificates, users, tokens.

The same settings for Apache Kafka and for ours: their names are Kafka's.
"""

import base64
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, Protocol

import trustme
from cryptography.hazmat.primitives import serialization

from oncelog.client import UserScramCredentialUpsertion
from oncelog.client.options.option_types import SecurityOptions
from oncelog.client.wire.security import SaslMechanism, SecurityProtocol
from oncelog.sync import Admin
from tests.support.kafka.server import Kafka, free_ports
from tests.support.processes.daemon import Daemon
from tests.support.security.tokens import Issuer

USER, PASSWORD = "alice", "alice's=secret"
_PACKAGE = "org.apache.kafka.common.security"
_SETTINGS = """
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,\
SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
listeners={listeners}
advertised.listeners={advertised}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
ssl.keystore.type=PEM
ssl.keystore.location={directory}/broker.pem
ssl.truststore.type=PEM
ssl.truststore.location={directory}/ca.pem
listener.name.ssl.ssl.client.auth=required
delegation.token.secret.key=of tests
"""
_JAAS = """
listener.name.{listener}.plain.sasl.jaas.config={package}.plain.PlainLoginModule required {users};
listener.name.{listener}.scram-sha-256.sasl.jaas.config={package}.scram.ScramLoginModule required;
listener.name.{listener}.scram-sha-512.sasl.jaas.config={package}.scram.ScramLoginModule required;
"""
_TOKENS = """
listener.name.{listener}.oauthbearer.sasl.jaas.config={package}.oauthbearer.OAuthBearerLoginModule required \
unsecuredLoginStringClaim_sub="broker";
"""
SESSION_MS = 1_500
"""The length of a session with SCRAM-SHA-256 over SASL_PLAINTEXT; others have no end. Kafka wants a second between two
logins."""
_ITERATIONS: tuple[tuple[Literal["SCRAM-SHA-256", "SCRAM-SHA-512"], int], ...] = (
    ("SCRAM-SHA-256", 8_192),
    ("SCRAM-SHA-512", 4_096),
)
_REPEATED = f"listener.name.sasl_plaintext.scram-sha-256.connections.max.reauth.ms={SESSION_MS}"


class Token(Protocol):
    def __call__(self, expires_in_s: int, user: str = USER) -> str:
        """A new one for OAUTHBEARER."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files: of the authority, and of a client with its key."""

    authority: str
    client: str

    @classmethod
    def make(cls, directory: Path) -> "Certificates":
        """And `broker.pem` beside them, for localhost alone: 127.0.0.1 is a name that it lacks."""
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(directory / "ca.pem"))
        (directory / "broker.pem").write_bytes(_with_chain(authority.issue_cert("localhost")))
        (directory / "client.pem").write_bytes(_with_chain(authority.issue_cert("alice@example.com")))
        return cls(str(directory / "ca.pem"), str(directory / "client.pem"))


def _with_chain(issued: trustme.LeafCert) -> bytes:
    """With the key in PKCS 8, the only form that Kafka reads."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    kind = serialization.PrivateFormat.PKCS8
    encoded = key.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())
    return encoded + b"".join(each.bytes() for each in issued.cert_chain_pems)


@dataclass(frozen=True, slots=True)
class Secured:
    """A running one: `host:port` of each listener."""

    addresses: dict[SecurityProtocol, str]
    certificates: Certificates
    token: Token

    def options(self, protocol: SecurityProtocol, mechanism: SaslMechanism | None = None) -> SecurityOptions:
        """A client's options for the listener of this protocol."""
        options: SecurityOptions = {"security_protocol": protocol}
        if protocol.endswith("SSL"):
            options["ssl_truststore_location"] = self.certificates.authority
        if protocol == "SSL":
            options["ssl_keystore_location"] = self.certificates.client
        if protocol.startswith("SASL"):
            options["sasl_mechanism"] = mechanism
        if mechanism == "OAUTHBEARER":
            options["sasl_oauth_token_provider"] = lambda: self.token(3_600)
        elif mechanism is not None:
            options["sasl_username"], options["sasl_password"] = USER, PASSWORD
        return options


def _unsigned(expires_in_s: int, user: str = USER) -> str:
    """A token without a signature, which Kafka accepts where nothing else is configured."""
    now_s = int(time.time())
    parts: list[dict[str, str | int]] = [
        {"alg": "none"},
        {"sub": user, "scope": "kafka", "iat": now_s, "exp": now_s + expires_in_s},
    ]
    encoded = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in parts)
    return ".".join((*encoded, ""))


def _signed(issuer: Issuer, expires_in_s: int, user: str = USER) -> str:
    return issuer.token(sub=user, exp=int(time.time()) + expires_in_s)


@contextmanager
def secured(kind: str, directory: Path, *overrides: str, users: Sequence[str] = (USER,)) -> Iterator[Secured]:
    """A broker of this kind, "kafka" or ours, for the block, with these settings, too; all users have one password."""
    protocols: list[SecurityProtocol] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    ports = dict(zip((*protocols, "CONTROLLER"), free_ports(len(protocols) + 1), strict=True))
    has_controller = kind == "kafka"
    listeners = [f"{name}://127.0.0.1:{port}" for name, port in ports.items() if has_controller or name in protocols]
    advertised = [f"{name}://localhost:{ports[name]}" for name in protocols]
    lines = _SETTINGS.format(
        listeners=",".join(listeners),
        advertised=",".join(advertised),
        directory=directory,
    )
    jaas = _JAAS + _TOKENS if has_controller else _JAAS
    for listener in ("sasl_plaintext", "sasl_ssl"):
        passwords = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
        lines += jaas.format(listener=listener, package=_PACKAGE, users=passwords)
    lines += "\n".join((_REPEATED, *overrides))
    certificates = Certificates.make(directory)
    running: Daemon | Kafka
    token: Token
    if has_controller:
        quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{ports['CONTROLLER']}"
        running, token = Kafka(directory, overrides=(lines, quorum), ready_at=ports["PLAINTEXT"]), _unsigned
    else:
        issuer = Issuer(now_s=int(time.time()))
        keys = f"sasl.oauthbearer.jwks.endpoint.url={issuer.write_jwks(directory / 'keys.json')}"
        audience = "sasl.oauthbearer.expected.audience=kafka"
        running = Daemon(directory / "data", keys, audience, *filter(None, lines.split("\n")))
        token = partial(_signed, issuer)
    try:
        found = Secured({name: f"localhost:{ports[name]}" for name in protocols}, certificates, token)
        with Admin(found.addresses["PLAINTEXT"]) as admin:
            # One mechanism at a time: Kafka changes no user twice in a request.
            for mechanism, iterations in _ITERATIONS:
                admin.alter_user_scram_credentials(
                    *(UserScramCredentialUpsertion(user, PASSWORD, mechanism, iterations) for user in users)
                )
        yield found
    finally:
        running.stop()
