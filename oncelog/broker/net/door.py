"""The door of a listener with TLS or SASL: what a connection passes before its requests are served.

Owns: what each new connection gets (`TlsLayer`, `Login`), and which principal a certificate stands for. Does not own:
keys and certificates (`broker.security.tls`), mechanisms (`broker.security.sasl_settings`), the limits of connections
(`broker.net.quotas`).
Invariants
- A connection of such a listener is served only after `Connection.admit`.
- Settings that change while the broker runs are read whole before they replace the current ones; what cannot be read is
  refused, or leaves them.
"""

import asyncio
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from oncelog.broker.cluster.metadata_log import ResourceType
from oncelog.broker.config.listeners import SecurityProtocol
from oncelog.broker.config.settings import BrokerConfig, ConfigError
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.login import SaslLogin
from oncelog.broker.net.tls import TlsLayer
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.security.authentication import Authentication
from oncelog.broker.security.certificate import certificate_names
from oncelog.broker.security.principal import ANONYMOUS, Principal
from oncelog.broker.security.principal_rules import Rules, parse_principal_rules, user_of
from oncelog.broker.security.sasl_settings import SaslError, SaslParts, SaslSettings, read_sasl_settings
from oncelog.broker.security.scram import ScramUsers
from oncelog.broker.security.tls import (
    TlsError,
    TlsSettings,
    check_replacement,
    differences,
    make_context,
    read_tls_settings,
)

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker


class _Passage(NamedTuple):
    """The security settings of one listener, resolved."""

    tls: TlsSettings | None
    context: ssl.SSLContext | None
    rules: Rules
    sasl: SaslSettings | None


class Door:
    def __init__(
        self, broker: "Broker", dispatcher: Dispatcher, listener_name: str, protocol: SecurityProtocol
    ) -> None:
        """Raises ConfigError."""
        self._broker = broker
        self._dispatcher = dispatcher
        self.listener_name = listener_name
        self._protocol = protocol
        self._sasl_parts = _sasl_parts(broker) if protocol.has_sasl else None
        self._passage = self._read(broker.config)
        self._watch()

    @property
    def certificate_end_s(self) -> int | None:
        """When the broker's certificate ends, in seconds since 1970; None without TLS."""
        tls = self._passage.tls
        return None if tls is None else tls.names.end_s

    def _watch(self) -> None:
        self._broker.live_config.check(self._check)
        self._broker.live_config.watch(self._on_change)
        self._broker.live_config.file_readers.append(self)

    def change_broker(self, broker: "Broker") -> None:
        """Use the users and settings of another broker of this process; logins that have begun continue with them."""
        self._broker = broker
        if self._sasl_parts is not None:
            users = broker.scram_users = self._sasl_parts.users
            users.replace(broker.metadata.state.security.scram_credentials, broker.login_secret(), broker.tokens)
            _watch_users(broker, users)
        self._watch()
        self._on_change(ResourceType.BROKER, "")

    def _read(self, config: BrokerConfig) -> _Passage:
        """Return the security settings, with all files read. Raises ConfigError."""
        name = self.listener_name
        try:
            return _Passage(
                *self._read_tls(config),
                parse_principal_rules(config.get_of_listener(name, "ssl.principal.mapping.rules")),
                None if self._sasl_parts is None else read_sasl_settings(config, name, self._sasl_parts),
            )
        except (TlsError, SaslError, ValueError) as error:
            raise ConfigError(f"listener {name}: {error}") from error

    def _read_tls(self, config: BrokerConfig) -> tuple[TlsSettings | None, ssl.SSLContext | None]:
        """Raises TlsError."""
        if not self._protocol.has_tls:
            return None, None
        tls = read_tls_settings(config, self.listener_name, with_sasl=self._protocol.has_sasl)
        return tls, make_context(tls)

    def reload(self) -> Sequence[str]:
        """Read keys and certificates again, for new connections; return what is different. Raises ConfigError, and the
        current ones stay. Of SASL nothing is in a file, but the keys of a JWKS, which are read again by their own
        clock."""
        config, before = self._broker.config, self._passage.tls
        try:
            tls, context = self._read_tls(config)
        except TlsError as error:
            raise ConfigError(f"listener {self.listener_name}: {error}") from error
        if before is None or tls is None or tls == before:
            return ()  # the same context: its tickets stay good
        self._check_replacement(config, before, tls)
        self._passage = self._passage._replace(tls=tls, context=context)
        return differences(before, tls)

    def _check(self, config: BrokerConfig) -> None:
        """Raise ConfigError if these settings may not replace the current ones."""
        before, after = self._passage.tls, self._read(config).tls
        if before is not None and after is not None:
            self._check_replacement(config, before, after)

    def _check_replacement(self, config: BrokerConfig, before: TlsSettings, after: TlsSettings) -> None:
        def allows(key: str) -> bool:
            return config.get_of_listener(self.listener_name, key) == "true"

        try:
            check_replacement(
                before,
                after,
                other_dn=allows("ssl.allow.dn.changes"),
                other_san=allows("ssl.allow.san.changes"),
            )
        except TlsError as error:
            raise ConfigError(f"listener {self.listener_name}: {error}") from error

    def _on_change(self, resource_type: int, _name: str) -> None:
        """Use the new settings for new connections; those that are open stay as they are."""
        if resource_type != ResourceType.BROKER:
            return
        try:
            self._passage = self._read(self._broker.config)
        except ConfigError as error:
            # Another setting changed, and the files that were read before are gone meanwhile.
            self._broker.logger.error("listener.security_not_read", listener=self.listener_name, error=str(error))

    def enter(self, connection: Connection) -> asyncio.Protocol:
        """Return the protocol for the socket of a new connection."""
        config, passage = self._broker.config, self._passage
        connection.await_admission(config.get_int("oncelog.authentication.timeout.ms"))
        if passage.sasl is not None:
            authentication = Authentication(passage.sasl.mechanisms, passage.sasl.max_session_ms)
            login = SaslLogin(self._dispatcher, connection, authentication)
            most = config.get_of_listener(self.listener_name, "sasl.server.max.receive.size")
            connection.await_login(login, int(most))
        if passage.context is None:
            return connection
        return TlsLayer(
            connection, passage.context, self._broker.scheduler, lambda layer: self._on_secured(layer, connection)
        )

    def _on_secured(self, layer: TlsLayer, connection: Connection) -> None:
        """Continue after the handshake: without SASL, the certificate says who the client is."""
        if self._protocol.has_sasl:
            return
        certificate = layer.certificate
        principal = ANONYMOUS if certificate is None else self._principal_of(certificate)
        if principal is None:
            self._broker.metrics.logins_failed += 1
            connection.close("no rule in ssl.principal.mapping.rules matches the name in its certificate")
        else:
            self._broker.metrics.logins += 1
            connection.admit(principal, self._dispatcher.dispatch)

    def _principal_of(self, certificate: bytes) -> Principal | None:
        user = user_of(self._passage.rules, certificate_names(certificate).distinguished_name)
        return None if user is None else Principal("User", user)


def _sasl_parts(broker: "Broker") -> SaslParts:
    if broker.scram_users is None:
        broker.scram_users = _scram_users(broker)
    return SaslParts(broker.scram_users, broker.clock, broker.scheduler, broker.logger)


def _scram_users(broker: "Broker") -> ScramUsers:
    known = broker.metadata.state.security.scram_credentials

    def nonce() -> str:
        return broker.entropy.uuid().hex + broker.entropy.uuid().hex

    users = ScramUsers(known, broker.login_secret(), nonce, broker.tokens)
    _watch_users(broker, users)
    return users


def _watch_users(broker: "Broker", users: ScramUsers) -> None:
    broker.metadata.state.security.watch(lambda _: users.on_change())
