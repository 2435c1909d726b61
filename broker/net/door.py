"""The door of a listener with TLS or SASL: what a connection passes before its requests are served.

Owns: what each new connection gets (`TlsLayer`), and which principal it is admitted as by its certificate. Does not
own: keys and certificates (`broker.security.tls`), the limits of connections (`broker.net.quotas`).
Invariant: a connection of such a listener is served only after `Connection.admit`.
"""

import asyncio
from typing import TYPE_CHECKING

from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.settings import ConfigError
from oncelog.broker.dispatch import Dispatcher
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.tls import TlsLayer
from oncelog.broker.security.certificate import certificate_names
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.broker.security.principal_rules import parse_principal_rules, user_of
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
        try:
            self._context = make_context(read_tls_settings(config, listener_name, with_sasl=protocol.has_sasl))
            self._rules = parse_principal_rules(config.get_of_listener(listener_name, "ssl.principal.mapping.rules"))
        except (TlsError, ValueError) as error:
            raise ConfigError(f"listener {listener_name}: {error}") from error

    def enter(self, connection: Connection) -> asyncio.Protocol:
        """What the socket of a new connection gets as its protocol."""
        connection.await_admission(self._broker.config.get_int("oncelog.authentication.timeout.ms"))

        def on_secured(layer: TlsLayer) -> None:
            certificate = layer.certificate
            principal = ANONYMOUS if certificate is None else self._principal_of(certificate)
            if principal is None:
                connection.close("no rule in ssl.principal.mapping.rules matches the name in its certificate")
            else:
                connection.admit(principal, self._dispatcher.dispatch)

        return TlsLayer(connection, self._context, self._broker.scheduler, on_secured)

    def _principal_of(self, certificate: bytes) -> Principal | None:
        user = user_of(self._rules, certificate_names(certificate).distinguished_name)
        return None if user is None else Principal("User", user)
