"""The door of a listener with TLS or SASL: what a connection passes before its requests are served.

Owns: what each new connection gets (`TlsLayer`, `Login`), and which principal a certificate stands for. Does not own:
keys and certificates (`broker.security.tls`), mechanisms (`broker.security.sasl_settings`), the limits of connections
(`broker.net.quotas`).
Invariant: a connection of such a listener is served only after `Connection.admit`.
"""

import asyncio
import hashlib
import ssl
from typing import TYPE_CHECKING

from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.settings import ConfigError
from oncelog.broker.dispatch import Dispatcher
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.login import Login
from oncelog.broker.net.tls import TlsLayer
from oncelog.broker.security.authentication import Authentication
from oncelog.broker.security.certificate import certificate_names
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.broker.security.principal_rules import parse_principal_rules, user_of
from oncelog.broker.security.sasl_settings import SaslError, SaslSettings, read_sasl_settings
from oncelog.broker.security.scram import ScramUsers
from oncelog.broker.security.tls import TlsError, make_context, read_tls_settings

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


class Door:
    def __init__(
        self, broker: "Broker", dispatcher: Dispatcher, listener_name: str, protocol: SecurityProtocol
    ) -> None:
        """Raises ConfigError."""
        config = broker.config
        self._broker = broker
        self._dispatcher = dispatcher
        self._listener_name = listener_name
        self._context: ssl.SSLContext | None = None
        self._sasl: SaslSettings | None = None
        try:
            if protocol.has_tls:
                self._context = make_context(read_tls_settings(config, listener_name, with_sasl=protocol.has_sasl))
            if protocol.has_sasl:
                self._sasl = read_sasl_settings(config, listener_name, _scram_users(broker))
            self._rules = parse_principal_rules(config.get_of_listener(listener_name, "ssl.principal.mapping.rules"))
        except (TlsError, SaslError, ValueError) as error:
            raise ConfigError(f"listener {listener_name}: {error}") from error

    def enter(self, connection: Connection) -> asyncio.Protocol:
        """What the socket of a new connection gets as its protocol."""
        connection.await_admission(self._broker.config.get_int("oncelog.authentication.timeout.ms"))
        if self._sasl is not None:
            authentication = Authentication(self._sasl.mechanisms, self._sasl.max_session_ms)
            login = Login(self._broker, self._dispatcher, connection, authentication)
            most = self._broker.config.get_of_listener(self._listener_name, "sasl.server.max.receive.size")
            connection.await_login(login, int(most))
        if self._context is None:
            return connection
        return TlsLayer(
            connection, self._context, self._broker.scheduler, lambda layer: self._on_secured(layer, connection)
        )

    def _on_secured(self, layer: TlsLayer, connection: Connection) -> None:
        """The handshake is finished: without SASL, the certificate says who it is."""
        if self._sasl is not None:
            return
        certificate = layer.certificate
        principal = ANONYMOUS if certificate is None else self._principal_of(certificate)
        if principal is None:
            connection.close("no rule in ssl.principal.mapping.rules matches the name in its certificate")
        else:
            connection.admit(principal, self._dispatcher.dispatch)

    def _principal_of(self, certificate: bytes) -> Principal | None:
        user = user_of(self._rules, certificate_names(certificate).distinguished_name)
        return None if user is None else Principal("User", user)


def _scram_users(broker: "Broker") -> ScramUsers:
    known = broker.metadata.state.security.scram_credentials
    # The salts of users who do not exist are the same after a restart with the same users, and nobody who knows the
    # keys of one user can tell them.
    secrets = sorted(credential.stored_key for credential in known.values()) or [broker.entropy.uuid().bytes]

    def nonce() -> str:
        return broker.entropy.uuid().hex + broker.entropy.uuid().hex

    return ScramUsers(known, hashlib.sha256(b"".join(secrets)).digest(), nonce)
