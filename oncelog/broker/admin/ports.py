"""The two HTTP ports of a broker, admin and metrics: what serves them, who may ask, with which TLS.

Owns: how they come from the settings. Does not own: sockets (`http`), the checks (`access`), keys and certificates
(`broker.security.tls`). The settings of their TLS are those of a listener of the name `oncelog_admin` or
`oncelog_metrics`, and change while the broker runs as those of listeners do.
"""

import ssl
from collections.abc import Sequence
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
from oncelog.broker.security.tls import TlsError, TlsSettings, differences, make_context, read_tls_settings

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
    token_is_in_file = token is None and bool(broker.config.get(TOKEN_FILES[name]))
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
    if tls is not None:
        broker.live_config.file_readers.append(tls)
    if token_is_in_file:
        broker.live_config.file_readers.append(_TokenFile(broker, name, access))
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
        self.listener_name = f"oncelog_{name}"
        self._settings, self.context = self._read(broker.config)
        broker.live_config.check(self._check)
        broker.live_config.watch(self._on_change)

    @property
    def certificate_end_s(self) -> int:
        return self._settings.names.end_s

    def reload(self) -> Sequence[str]:
        """Raises ConfigError, and the current ones stay."""
        before = self._settings
        after, context = self._read(self._broker.config)
        if after == before:
            return ()
        self._settings, self.context = after, context
        return differences(before, after)

    def _read(self, config: BrokerConfig) -> tuple[TlsSettings, ssl.SSLContext]:
        try:
            settings = read_tls_settings(config, self.listener_name, with_sasl=False)
            return settings, make_context(settings)
        except TlsError as error:
            raise ConfigError(f"listener {self.listener_name}: {error}") from error

    def _check(self, config: BrokerConfig) -> None:
        self._read(config)

    def _on_change(self, _resource_type: int, _name: str) -> None:
        try:
            self._settings, self.context = self._read(self._broker.config)
        except ConfigError as error:  # another setting changed, and the files that were read before are gone meanwhile
            self._broker.logger.error("listener.security_not_read", listener=self.listener_name, error=str(error))


class _TokenFile:
    """Gives the token in the file of the settings to `access`, whenever it is read again."""

    certificate_end_s = None

    def __init__(self, broker: "Broker", name: str, access: Access) -> None:
        self._broker = broker
        self._name = name
        self._access = access
        self.listener_name = f"oncelog_{name}"

    def reload(self) -> Sequence[str]:
        """Raises ConfigError, and the current one stays."""
        token = _token_of(self._broker.config, self._name)
        return ("another token",) if token is not None and self._access.replace_token(token) else ()
