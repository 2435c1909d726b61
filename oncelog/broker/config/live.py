"""The current settings: those the broker was started with, and later changes.

Owns: `current`, and changing settings: written to the metadata log and effective in the same turn. Does not own: the
verdict on a change (`broker.config.changes`), the log of changes (`broker.cluster.metadata_log`). Invariant: `current`
is the combination of the metadata log and the start's settings, also after a restart. KIP-226.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from oncelog.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION, is_on
from oncelog.broker.cluster.metadata_log import MetadataLog, ResourceType
from oncelog.broker.config.dynamic_keys import OF_THE_CLUSTER, is_security
from oncelog.broker.config.settings import BrokerConfig, ConfigError
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError


class FileReader(Protocol):
    """A reader of files that settings name: the security of a listener, or of an HTTP port."""

    @property
    def listener_name(self) -> str: ...

    @property
    def certificate_end_s(self) -> int | None:
        """When its certificate ends, in seconds since 1970; None without TLS."""

    def reload(self) -> Sequence[str]:
        """Read the files again and use what is in them; return what is different. Raises ConfigError, and what was read
        before stays."""


class LiveConfig:
    def __init__(self, started_with: BrokerConfig, metadata: MetadataLog, node_id: int) -> None:
        self._started_with = started_with
        self._metadata = metadata
        self.node_id = node_id
        """The node id of the broker that has the settings."""
        self._watchers: list[Callable[[int, str], None]] = []
        self._checks: list[Callable[[BrokerConfig], None]] = []
        self.file_readers: list[FileReader] = []
        """They add themselves."""
        self.current = self._resolved()

    def watch(self, on_change: Callable[[int, str], None]) -> None:
        """Call `on_change(resource_type, name)` whenever settings of a resource have changed, in that turn."""
        self._watchers.append(on_change)

    def check(self, check: Callable[[BrokerConfig], None]) -> None:
        """Call `check(settings)` before settings of TLS and SASL change: it raises ConfigError if they may not."""
        self._checks.append(check)

    def alter(
        self,
        resource_type: int,
        name: str,
        changes: Mapping[str, str | None],
        named: Iterable[str],
        validate_only: bool,
    ) -> Completion[None]:
        """Do as `change` for a request with the settings `named`: TLS files are read again even if their settings stay
        the same, as in Kafka. Raises KafkaError."""
        reads_files = resource_type == ResourceType.BROKER and bool(self._checks) and any(map(is_security, named))
        if reads_files:
            try:
                settings = self._resolved({name: changes})
                for check in self._checks:
                    check(settings)
            except ConfigError as error:
                raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error
        if validate_only or not (changes or reads_files):
            return Completion.of(None)
        return self.change(resource_type, name, changes)

    def change(self, resource_type: int, name: str, changes: Mapping[str, str | None]) -> Completion[None]:
        """Set, or with None unset; effective at once, completes once durable. The changes must be valid."""
        written = self._metadata.set_config(resource_type, name, changes) if changes else Completion.of(None)
        if written.error is None:
            self.on_replayed(resource_type, name)
        return written

    def on_replayed(self, resource_type: int, name: str) -> None:
        """The metadata log has other settings of this resource."""
        if resource_type == ResourceType.BROKER:
            self.current = self._resolved()
        for on_change in self._watchers:
            on_change(resource_type, name)

    def of_all_brokers(self) -> dict[str, str]:
        """Return what is set for all brokers, by hand or from the start on."""
        by_hand = dict(self._metadata.state.config(ResourceType.BROKER, ""))
        if not is_on(self._metadata.state.features, ELIGIBLE_LEADER_REPLICAS_VERSION):
            return by_hand
        return {OF_THE_CLUSTER: self._started_with.get_str(OF_THE_CLUSTER)} | by_hand

    def settle_value_of_cluster(self) -> None:
        """Set by hand what holds for all brokers from the start on, and for no broker anything else: as Kafka does when
        eligible leader replicas are switched on, and as it has it when they are switched off."""
        state = self._metadata.state
        if OF_THE_CLUSTER not in state.config(ResourceType.BROKER, ""):
            self.change(ResourceType.BROKER, "", {OF_THE_CLUSTER: self._started_with.get_str(OF_THE_CLUSTER)})
        for (kind, name), config in list(state.configs.items()):
            if kind == ResourceType.BROKER and name and OF_THE_CLUSTER in config:
                self.change(kind, name, {OF_THE_CLUSTER: None})

    def _resolved(self, changes: Mapping[str, Mapping[str, str | None]] = MappingProxyType({})) -> BrokerConfig:
        """Return the settings with these changes, given by the broker's name (empty for all brokers)."""
        layers = []
        for name in ("", str(self.node_id)):
            layer = dict(self._metadata.state.config(ResourceType.BROKER, name)) if name else self.of_all_brokers()
            for key, value in changes.get(name, {}).items():
                if value is None:
                    layer.pop(key, None)
                else:
                    layer[key] = value
            layers.append(layer)
        return self._started_with.with_dynamic(*layers)
