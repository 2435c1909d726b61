"""The two HTTP ports of a broker, admin and metrics: what serves them, who may ask, with which TLS.

Owns: how they come from the settings. Does not own: sockets (`http`), the checks (`access`), keys and certificates
(`broker.security.tls`). The settings of their TLS are those of a listener of the name `oncelog_admin` or
`oncelog_metrics`, and change while the broker runs as those of listeners do.
"""

import ssl
from typing import TYPE_CHECKING

from oncelog.broker.admin.access import Access
from oncelog.broker.admin.collection import Collection
from oncelog.broker.admin.http import HttpServer, Serve
from oncelog.broker.admin.metrics_routes import MetricsRoutes
from oncelog.broker.admin.routes import Routes
from oncelog.broker.admin.token import Token, TokenError, read_token
from oncelog.broker.config.admin_address import TOKEN_FILES, HttpAddress
from oncelog.broker.config.settings import BrokerConfig, ConfigError
from oncelog.broker.faults.events import Events
from oncelog.broker.faults.faults import Faults
from oncelog.broker.security.tls import TlsError, make_context, read_tls_settings

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker


def admin_port(broker: "Broker", faults: Faults, address: HttpAddress, token: Token | None = None) -> HttpServer:
    """Return the port, not started yet. `token` replaces the one in the file of the settings. Raises ConfigError."""
    return _port(broker, "admin", address, Routes(faults).serve, token, events=faults.events)


def metrics_port(broker: "Broker", collection: Collection, address: HttpAddress) -> HttpServer:
    """Return the port, not started yet. Raises ConfigError."""
    return _port(broker, "metrics", address, MetricsRoutes(broker, collection).serve, read_only=True)


def _port(
    broker: "Broker",
    name: str,
    address: HttpAddress,
    serve: Serve,
    token: Token | None = None,
    *,
    events: Events | None = None,
    read_only: bool = False,
) -> HttpServer:
    token = token or _token_of(broker.config, name)
    if token is not None and not address.has_tls and not address.is_local:
        broker.logger.warning(
            f"{name}.clear_text",
            message=f"the token crosses the network unencrypted: write oncelog.{name}.listen=https://{address}, with "
            f"the settings of TLS (listener.name.oncelog_{name}.ssl.keystore.location)",
        )
    advertised = [each.advertised_host for each in broker.config.listeners]
    host_names = [*advertised, *broker.config.get_list("oncelog.http.host.names")]
    access = Access(name, address, token, host_names, read_only=read_only)
    tls = _Tls(broker, name) if address.has_tls else None
    return HttpServer(serve, access, broker.logger, events, lambda: None if tls is None else tls.context)


def _token_of(config: BrokerConfig, name: str) -> Token | None:
    key = TOKEN_FILES[name]
    path = config.get(key)
    try:
        return read_token(path) if path else None
    except TokenError as error:
        raise ConfigError(f"{key}: {error}") from error


class _Tls:
    """Keeps `context`, the TLS context for new connections. A setting whose files cannot be read is refused; if they
    become unreadable later, the old context stays."""

    def __init__(self, broker: "Broker", name: str) -> None:
        """Raises ConfigError."""
        self._broker = broker
        self._listener_name = f"oncelog_{name}"
        self.context = self._read(broker.config)
        broker.live_config.check(self._check)
        broker.live_config.watch(self._on_change)

    def _read(self, config: BrokerConfig) -> ssl.SSLContext:
        try:
            return make_context(read_tls_settings(config, self._listener_name, with_sasl=False))
        except TlsError as error:
            raise ConfigError(f"listener {self._listener_name}: {error}") from error

    def _check(self, config: BrokerConfig) -> None:
        self._read(config)

    def _on_change(self, _resource_type: int, _name: str) -> None:
        try:
            self.context = self._read(self._broker.config)
        except ConfigError as error:  # another setting changed, and the files that were read before are gone meanwhile
            self._broker.logger.error("listener.security_not_read", listener=self._listener_name, error=str(error))
