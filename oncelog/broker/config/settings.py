"""The broker's settings: gathered from four sources, checked, and typed.

Owns: the precedence of the sources (changed while running, command line, environment, file, default), the environment's
spelling, the verdict on names. Does not own: the table (`broker.config.broker_keys`), file syntax
(`broker.config.properties`), listeners' syntax.
Invariants
- A BrokerConfig is valid as a whole and never changes; every value has its origin.
- An unknown name on the command line stops the start, with a near known one in the message. In a file or a KAFKA_
  variable it is a warning, as in Kafka: vendors and plug-ins have names of their own, and a file or compose service
  written for Kafka works unchanged. A name that begins with oncelog. is this broker's, so that it stops the start.
- A name that Kafka knows and one node does not need is accepted with a warning, and shown as Kafka shows it; its value
  is checked by Kafka's type and bounds, as every value is.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from oncelog.broker.config.admin_address import check_tokens
from oncelog.broker.config.broker_keys import BROKER_KEYS, key_of_listener
from oncelog.broker.config.config_key import ConfigKey, ConfigType
from oncelog.broker.config.dynamic_keys import has_effect_while_running
from oncelog.broker.config.listeners import (
    ListenerConfig,
    ListenerError,
    listeners_from_advertised,
    parse_host_port,
    parse_listeners,
    with_listener_name,
    with_names_of,
)

# Read by the start scripts of Kafka and of its images; not settings of the broker.
_SCRIPT_VARIABLES = re.compile(
    r"KAFKA_(VERSION|HOME|DEBUG|MODE|OPTS|HEAP_OPTS|LOG4J_.*|JMX_.*|JVM_.*|GC_LOG_OPTS|TOOLS_LOG4J_LOGLEVEL|LOG_DIR_OPTS"
    r"|BOOTSTRAP_SERVERS?|BROKERS?|URL|TOPICS?|ENABLE_KRAFT|SKIP_KRAFT_STORAGE_INIT)\Z"
)
# Of the images apache/kafka and confluentinc/cp-kafka, and of bitnami/kafka.
_CLUSTER_ID_VARIABLES = ("CLUSTER_ID", "KAFKA_KRAFT_CLUSTER_ID")
# Set by Kubernetes in every container if a service is named kafka.
_SERVICE_VARIABLES = re.compile(r"KAFKA_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT_\d+_(TCP|UDP)\w*)\Z")
# Kafka 4 has the former no more, and the latter decides as it did; files for older images still name it.
_FORMER_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
# On one node these have only one possible value, so a file that sets it needs no warning.
_HARMLESS = {
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class ConfigError(Exception):
    """The settings are not usable; the message names the key, its source, and what to write instead."""


class StartError(Exception):
    """The broker cannot start; the message says why and what to do."""


class SettingsError(StartError):
    """A setting is the reason, which only a start shows."""


class Origin(IntEnum):
    """The source of a value; the greater takes precedence."""

    DEFAULT = 0
    FILE = 1
    ENVIRONMENT = 2
    COMMAND_LINE = 3
    ALL_BROKERS = 4
    """A value changed while running, for the whole cluster (KIP-226)."""
    THIS_BROKER = 5
    """A value changed while running, for this node."""


@dataclass(frozen=True, slots=True)
class _Setting:
    value: str
    origin: Origin
    where: str
    """The file, variable or option that messages name."""


class Place(NamedTuple):
    """Where a broker keeps its records."""

    storage: str
    """`oncelog.storage`."""
    name: str
    """The name of the place in messages."""
    path: str
    """The directory of its logs, for Kafka's tools."""
    option: str
    """That which chooses another one."""


_WHEN_READ_ONLY = {
    "auto.create.topics.enable": "false",
    "log.cleaner.enable": "false",
    "oncelog.flush.policy": "memory",
}

METRIC_REPORTERS = ("oncelog.metrics.listen", "oncelog.statsd.address", "oncelog.otlp.endpoint")
"""Settings of which any makes the broker report its metrics, and measure durations for that."""


class BrokerConfig:
    """Checked settings. Requesting a name that the table lacks is a programming error."""

    __slots__ = (
        "_dynamic",
        "_host_name",
        "_settings",
        "_static",
        "_without_effect",
        "connection_limits",
        "data_dir",
        "listeners",
        "statsd_address",
    )

    def __init__(
        self,
        settings: Mapping[str, _Setting],
        host_name: Callable[[], str],
        dynamic: Sequence[Mapping[str, _Setting]] = (),
        without_effect: Mapping[str, _Setting] = MappingProxyType({}),
    ) -> None:
        """`dynamic` overrides `settings`, the last mapping first; `without_effect` is only shown. Raises ConfigError
        for contradictory settings."""
        self._static = settings
        self._without_effect = without_effect
        self._dynamic = dynamic
        self._host_name = host_name
        self._settings = dict(settings)
        for layer in dynamic:
            self._settings.update(layer)
        self.data_dir = self._data_dir()
        self._check_storage()
        self.listeners = self._listeners(host_name)
        self.statsd_address = self._statsd_address()
        try:
            check_tokens(self.get)
            if any(name.startswith(("group.share.", "group.streams.")) for name in settings):
                from oncelog.broker.config.group_order import check_order  # few brokers set any

                check_order(self.get_int)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        self.connection_limits = self._connection_limits()

    def get(self, key: str) -> str | None:
        """Return the text; None when neither set nor defaulted."""
        setting = self._settings.get(key)
        return setting.value if setting is not None else BROKER_KEYS[key].default

    def get_str(self, key: str) -> str:
        """Return the text; empty when neither set nor defaulted."""
        return self.get(key) or ""

    def get_int(self, key: str) -> int:
        return int(self.get_str(key))

    def get_bool(self, key: str) -> bool:
        return self.get_str(key) == "true"

    def get_listener_int(self, listener_name: str, key: str) -> int | None:
        """Return the value of `listener.name.NAME.key` for one listener; None if it is not set."""
        value = self.get_only_of_listener(listener_name, key)
        return None if value is None else int(value)

    def get_only_of_listener(self, listener_name: str, key: str) -> str | None:
        """Return the value of `listener.name.NAME.key`; None if it is not set."""
        setting = self._settings.get(f"listener.name.{listener_name.lower()}.{key}")
        return None if setting is None else setting.value

    def get_of_listener(self, listener_name: str, key: str) -> str:
        """Return the value of `listener.name.NAME.key`, else of `key`, else its default, else empty."""
        value = self.get_only_of_listener(listener_name, key)
        return self.get_str(key) if value is None else value

    def get_of_mechanism(self, listener_name: str, mechanism: str, key: str) -> str:
        """Return the value of `listener.name.NAME.MECHANISM.key`, else what `get_of_listener` returns."""
        value = self.get_only_of_listener(listener_name, f"{mechanism.lower()}.{key}")
        return self.get_of_listener(listener_name, key) if value is None else value

    def get_list(self, key: str) -> list[str]:
        text = self.get_str(key)
        return [item.strip() for item in text.split(",")] if text else []

    def origin(self, key: str) -> Origin:
        setting = self._settings.get(key)
        return setting.origin if setting is not None else Origin.DEFAULT

    def layers(self, key: str) -> list[tuple[str, Origin]]:
        """Return every value of the key with its origin, by precedence; the default is last."""
        found = [layer[key] for layer in (*reversed(self._dynamic), self._static) if key in layer]
        values = [(setting.value, setting.origin) for setting in found]
        default = BROKER_KEYS[key].default
        return values if default is None else [*values, (default, Origin.DEFAULT)]

    def static_of_listeners(self) -> dict[str, tuple[str, Origin]]:
        """Return the settings `listener.name.…` that the broker was started with."""
        found = self._static.items()
        return {name: (each.value, each.origin) for name, each in found if key_of_listener(name) is not None}

    def static_without_effect(self) -> dict[str, tuple[str, Origin]]:
        """Return the settings without effect that the broker was started with."""
        return {name: (each.value, each.origin) for name, each in self._without_effect.items()}

    def with_dynamic(self, all_brokers: Mapping[str, str], this_broker: Mapping[str, str]) -> "BrokerConfig":
        """Return the same settings with those changed while running. Names without effect here and values that another
        release accepted are ignored."""
        layers = (_usable(all_brokers, Origin.ALL_BROKERS), _usable(this_broker, Origin.THIS_BROKER))
        return BrokerConfig(self._static, self._host_name, layers, self._without_effect)

    def read_only_by_default(self, why: str) -> "BrokerConfig":
        """Return the settings of a read-only broker, unless `oncelog.read.only` was given; `why` is for messages."""
        if self.origin("oncelog.read.only") is not Origin.DEFAULT:
            return self
        settings = dict(self._static) | {"oncelog.read.only": _Setting("true", Origin.FILE, why)}
        _settle_read_only(settings)
        return BrokerConfig(settings, self._host_name, without_effect=self._without_effect)

    @property
    def host_name(self) -> str:
        return self._host_name()

    @property
    def place(self) -> Place:
        storage = self.get_str("oncelog.storage")
        if storage == "postgres":
            schema = self.get_str("oncelog.postgres.schema")
            return Place(storage, f"the schema {schema} in PostgreSQL", f"postgresql:{schema}", "--schema")
        return Place(storage, f"the data directory {self.data_dir}", str(self.data_dir), "--data-dir")

    def _check_storage(self) -> None:
        if self.get_str("oncelog.storage") != "postgres":
            return
        if not self.get_str("oncelog.postgres.schema"):
            raise ConfigError("oncelog.postgres.schema is empty: it is the name of a schema in PostgreSQL")
        if self.get_bool("oncelog.read.only"):
            raise ConfigError(
                "oncelog.read.only is for files: `oncelog log export DSN DIR` writes what is in PostgreSQL into them"
            )
        if self.get_str("oncelog.flush.policy") != "fsync":
            raise ConfigError("oncelog.flush.policy is for files: PostgreSQL's own is synchronous_commit")

    def _data_dir(self) -> Path:
        key = "log.dirs" if self.get("log.dirs") else "log.dir"
        directories = self.get_list(key)
        if len(directories) != 1:
            raise ConfigError(f"{key} names {len(directories)} directories: a node has one data directory")
        return Path(directories[0])

    def _listeners(self, host_name: Callable[[], str]) -> tuple[ListenerConfig, ...]:
        try:
            return parse_listeners(
                self.get_list("listeners"),
                self.get_list("advertised.listeners"),
                self.get_str("listener.security.protocol.map"),
                [name.upper() for name in self.get_list("controller.listener.names")],
                host_name,
            )
        except ListenerError as error:
            raise ConfigError(str(error)) from error

    def _connection_limits(self) -> dict[str, int]:
        text = self.get_str("max.connections.per.ip.overrides")
        if not text:
            return {}
        from oncelog.broker.config.connection_limits import parse_connection_limits

        return parse_connection_limits(text)

    def _statsd_address(self) -> tuple[str, int] | None:
        text = self.get_str("oncelog.statsd.address")
        try:
            return parse_host_port(text) if text else None
        except ListenerError as error:
            raise ConfigError(f"oncelog.statsd.address: {error}") from error


def _usable(values: Mapping[str, str], origin: Origin) -> dict[str, _Setting]:
    settings = {}
    for name, value in values.items():
        key = _key_of(name)
        if key is not None and has_effect_while_running(name):
            try:
                settings[name] = _Setting(key.check(value), origin, "the metadata log")
            except ValueError:
                continue
    return settings


def load_config(
    *,
    file: Path | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
    cli: Mapping[str, str] | None = None,
    host_name: Callable[[], str] = lambda: "localhost",
    where: str = "the command line",
) -> tuple[BrokerConfig, list[str]]:
    """Return the settings, and warnings to log. `cli` has options by key, which messages say are from `where`;
    `overrides` are `key=value`. Raises ConfigError."""
    settings, without_effect, warnings = _sort_out(_gather(file, overrides, environ or {}, cli or {}, where))
    _settle_listeners(settings)
    _settle_node_id(settings)
    _settle_read_only(settings)
    return BrokerConfig(settings, host_name, without_effect=without_effect), warnings


def given_settings(
    *, file: Path | None = None, overrides: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what the same sources give, unchecked, including names that only Kafka needs. Raises ConfigError."""
    return {name: setting.value for name, setting in _gather(file, overrides, environ or {}, {}, "").items()}


def _gather(
    file: Path | None, overrides: Sequence[str], environ: Mapping[str, str], cli: Mapping[str, str], where: str
) -> dict[str, _Setting]:
    given: dict[str, _Setting] = {}
    if file is not None:
        given.update(_from_file(file))
    given.update(_from_environment(environ))
    given.update(_from_overrides(overrides))
    for key, value in cli.items():
        text = with_listener_name(value) if key == "listeners" else value
        given[key] = _Setting(text, Origin.COMMAND_LINE, where)
    authorizer = given.get("authorizer.class.name")
    if authorizer is not None and authorizer.value == _FORMER_AUTHORIZER:
        given["authorizer.class.name"] = _Setting(_AUTHORIZER, authorizer.origin, authorizer.where)
    return given


def environment_key(variable: str) -> str:
    """Return the key of a KAFKA_… variable: `_` is `.`, `__` is `_`, `___` is `-` (the apache/kafka image's rule);
    bitnami's image has KAFKA_CFG_… instead."""
    name = variable.removeprefix("KAFKA_").removeprefix("CFG_").lower().replace("_", ".")
    return name.replace("...", "-").replace("..", "_")


def _from_file(file: Path) -> dict[str, _Setting]:
    # Not at the start of a broker without a file.
    from oncelog.broker.config.properties import PropertiesError, parse_properties

    try:
        pairs = parse_properties(file.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"cannot read the config file {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the config file {file} is not UTF-8 text") from error
    except PropertiesError as error:
        raise ConfigError(f"{file}, {error}") from error
    return {key: _Setting(value.strip(), Origin.FILE, str(file)) for key, value in pairs.items()}


def _from_environment(environ: Mapping[str, str]) -> dict[str, _Setting]:
    settings = {}
    for variable in sorted(environ):
        value = environ[variable].strip()
        if variable in _CLUSTER_ID_VARIABLES:
            settings["cluster.id"] = _Setting(value, Origin.ENVIRONMENT, variable)
            continue
        if not variable.startswith("KAFKA_") or _SCRIPT_VARIABLES.match(variable) or _SERVICE_VARIABLES.match(variable):
            continue
        if variable == "KAFKA_PORT" and value.startswith("tcp://"):
            continue
        settings[environment_key(variable)] = _Setting(value, Origin.ENVIRONMENT, variable)
    return settings


def _from_overrides(overrides: Sequence[str]) -> dict[str, _Setting]:
    settings = {}
    for text in overrides:
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise ConfigError(f"--override {text!r} is not of the form key=value")
        settings[key.strip()] = _Setting(value.strip(), Origin.COMMAND_LINE, "--override")
    return settings


def _sort_out(given: Mapping[str, _Setting]) -> tuple[dict[str, _Setting], dict[str, _Setting], list[str]]:
    """Return the settings that we use, checked, those that we do not, and the warnings for these."""
    settings: dict[str, _Setting] = {}
    without_effect: dict[str, _Setting] = {}
    unneeded: list[str] = []
    removed: list[str] = []
    unknown: list[str] = []
    for name, setting in given.items():
        key = _key_of(name)
        if key is not None:
            if not setting.value and key.default is None:
                continue
            settings[name] = _checked(name, key, setting)
            continue
        # Long tables, which a broker is started without that is given nothing but settings it uses.
        from oncelog.broker.config.kafka_names import REMOVED, UNNEEDED_KEYS, is_known_prefix

        if name in REMOVED:
            removed.append(name)
        elif name in UNNEEDED_KEYS or is_known_prefix(name):
            setting = _checked(name, UNNEEDED_KEYS.get(name), setting)
            if _HARMLESS.get(name) != setting.value:
                unneeded.append(name)
        elif setting.origin is not Origin.COMMAND_LINE and not name.startswith("oncelog."):
            unknown.append(_unknown(name, setting))
        else:
            raise ConfigError(_unknown(name, setting))
        without_effect[name] = setting
    warnings = []
    if unneeded:
        warnings.append(f"accepted without effect, not needed on one node: {', '.join(unneeded)}")
    if removed:
        warnings.append(f"accepted without effect, removed from Kafka itself: {', '.join(removed)}")
    warnings += [f"accepted without effect, {each}" for each in unknown]
    return settings, without_effect, warnings


def _checked(name: str, key: ConfigKey | None, setting: _Setting) -> _Setting:
    """Return the setting as it is stored; one of a plug-in, or that is left empty, as it is. Raises ConfigError."""
    if key is None or (not setting.value and key.default is None):
        return setting
    try:
        return _Setting(key.check(setting.value), setting.origin, setting.where)
    except ValueError as error:
        shown = "" if key.type is ConfigType.PASSWORD else f" is {setting.value!r}"
        raise ConfigError(f"{name}{shown} ({_place(setting)}): {error}") from None


def _key_of(name: str) -> ConfigKey | None:
    return key_of_listener(name) or BROKER_KEYS.get(name)


def _place(setting: _Setting) -> str:
    return f"from {setting.where}"


def _unknown(name: str, setting: _Setting) -> str:
    # Only an error needs these, so serving does not import them.
    from oncelog.broker.config.kafka_names import UNNEEDED
    from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
    from oncelog.protocol.names import nearest, owner_of

    topic_key = TOPIC_CONFIGS.get(name)
    if topic_key is not None and topic_key.synonyms:
        hint = f"it is a topic setting; the broker's is {topic_key.synonyms[0].name}"
    elif owner := owner_of(name):
        hint = f"it is a setting of {owner}, not of the broker"
    elif near := nearest(name, (*BROKER_KEYS, *UNNEEDED)):
        hint = f"the nearest name is {near[0]}"
    else:
        hint = "docs/start/configuration.md lists those there are"
    return f"unknown setting {name} ({_place(setting)}): {hint}"


def _settle_listeners(settings: dict[str, _Setting]) -> None:
    """The one of `listeners` and `advertised.listeners` whose source takes precedence decides which listeners exist.

    So a variable for one of them works over a file that has both, as the one in our image does.
    """
    listeners, advertised = settings.get("listeners"), settings.get("advertised.listeners")
    if advertised is None or not advertised.value:
        return
    if listeners is None or listeners.origin < advertised.origin:
        derived = listeners_from_advertised(advertised.value)
        settings["listeners"] = _Setting(derived, advertised.origin, advertised.where)
    elif advertised.origin < listeners.origin:
        kept = with_names_of(advertised.value, listeners.value)
        settings["advertised.listeners"] = _Setting(kept, advertised.origin, advertised.where)


def _settle_read_only(settings: dict[str, _Setting]) -> None:
    """Turn off what a read-only broker must not do, whatever else was set."""
    read_only = settings.get("oncelog.read.only")
    if read_only is not None and read_only.value == "true":
        for name, value in _WHEN_READ_ONLY.items():
            settings[name] = _Setting(value, read_only.origin, "oncelog.read.only")


def _settle_node_id(settings: dict[str, _Setting]) -> None:
    """broker.id is an alias of node.id, and may not contradict it, as in Kafka."""
    broker_id, node_id = settings.get("broker.id"), settings.get("node.id")
    if broker_id is None or broker_id.value == "-1":
        return
    if node_id is not None and int(node_id.value) != int(broker_id.value):
        raise ConfigError(f"node.id is {node_id.value} and broker.id is {broker_id.value}: remove broker.id")
    settings["node.id"] = broker_id
