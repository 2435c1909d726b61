"""Which changes to the settings of a topic, this broker, a group or a subscription to clients' metrics are allowed: the
verdict, with Kafka's messages.

Owns: the rules of AlterConfigs and IncrementalAlterConfigs for one resource. Does not own: the tables of settings,
writing (`broker.config.live`). Invariant: `prepare_changes` and `prepare_replacement` change nothing; what they return
is valid.
KIPs: 133 (alter), 226 (brokers), 339 (incremental), 714 (client metrics), 1043 (groups).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from oncelog.broker.cluster.features import ELIGIBLE_LEADER_REPLICAS_VERSION, is_on
from oncelog.broker.cluster.metadata_log import ClusterState, ResourceType
from oncelog.broker.cluster.topic_rules import check_topic_name
from oncelog.broker.config.broker_keys import BROKER_KEYS
from oncelog.broker.config.config_key import ConfigType
from oncelog.broker.config.dynamic_keys import (
    JAVA_CLASS,
    OF_THE_CLUSTER,
    is_java_class,
    is_of_one_broker,
    is_of_one_listener,
    may_change_while_running,
)
from oncelog.broker.config.group_config import validate_group_config
from oncelog.broker.config.kafka_names import UNNEEDED_KEYS
from oncelog.broker.config.node_id import check_node_id
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.config.topic_config import invalid_value, resolve_topic_config, validate_topic_config
from oncelog.broker.config.topic_keys import TOPIC_CONFIGS
from oncelog.protocol.errors import ErrorCode, KafkaError

_MAX_LIST_BYTES = 32_767
"""The limit of an appended list: the longest string in older versions of DescribeConfigs."""


class Operation(IntEnum):
    """Kafka's AlterConfigOp.OpType."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    name: str
    operation: Operation
    value: str | None


class ConfigResource(Protocol):
    """Something with settings."""

    @property
    def name(self) -> str:
        """The name under which its settings are stored."""

    @property
    def own(self) -> Mapping[str, str]:
        """The settings that are set on it."""

    def check_change(self, change: ConfigChange) -> None:
        """Raises KafkaError if this setting cannot be changed so, whatever its value."""

    def list_to_change(self, change: ConfigChange) -> str:
        """Return the current list for APPEND and SUBTRACT. Raises KafkaError if the setting is not a list."""

    def check(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        """Raises KafkaError unless the resource may have `config`, of which `changed` is new."""


def find_resource(
    resource_type: int, name: str, state: ClusterState, config: BrokerConfig, node_id: int
) -> ConfigResource:
    """Raises KafkaError if no such resource can exist."""
    match resource_type:
        case ResourceType.TOPIC:
            return _TopicConfig(name, state, config)
        case ResourceType.BROKER:
            return _BrokerConfig(name, state, config, node_id)
        case ResourceType.GROUP:
            return _GroupConfig(name, state, config)
        case ResourceType.CLIENT_METRICS:
            return _ClientMetricsConfig(name, state)
        case _:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def prepare_changes(resource: ConfigResource, changes: Sequence[ConfigChange]) -> dict[str, str | None]:
    """Return the result of an incremental change. Raises KafkaError."""
    own = resource.own
    result = dict(own)
    for change in changes:
        resource.check_change(change)
        if change.operation is Operation.DELETE:
            result.pop(change.name, None)
        elif change.operation is Operation.SET:
            result[change.name] = change.value or ""
        else:
            before = resource.list_to_change(change)
            after = _changed_list(before, change)
            if after != before or change.name in own:
                result[change.name] = after
    resource.check(result, [change.name for change in changes if change.operation is not Operation.DELETE])
    return _difference(own, result)


def prepare_replacement(resource: ConfigResource, config: Mapping[str, str]) -> dict[str, str | None]:
    """Return the result of replacing all settings by `config`. Raises KafkaError."""
    resource.check(config, list(config))
    return _difference(resource.own, config)


def check_request(names: Sequence[str], without_value: Sequence[str]) -> None:
    """Check the rules that apply to every resource: no duplicate setting, no null. Raises
    KafkaError(INVALID_REQUEST)."""
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if without_value:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(without_value)}")


def _difference(own: Mapping[str, str], result: Mapping[str, str]) -> dict[str, str | None]:
    changes: dict[str, str | None] = {name: value for name, value in result.items() if own.get(name) != value}
    changes.update(dict.fromkeys(own.keys() - result.keys()))
    return changes


def _changed_list(before: str, change: ConfigChange) -> str:
    items = [item.strip() for item in before.split(",")] if before else []
    for item in (change.value or "").split(","):
        item = item.strip()
        if change.operation is Operation.SUBTRACT:
            items = [known for known in items if known != item]
        elif not item:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Configuration '{change.name}' values must not be empty.")
        elif item not in items:
            items.append(item)
    after = ",".join(items)
    if len(after.encode()) > _MAX_LIST_BYTES:
        message = f"Configuration '{change.name}' would be longer than {_MAX_LIST_BYTES} bytes."
        raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    return after


def _no_list(change: ConfigChange) -> KafkaError:
    message = f"Can't {change.operation.name} to key {change.name} because its type is not LIST."
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


class _TopicConfig:
    def __init__(self, name: str, state: ClusterState, config: BrokerConfig) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
        self.name = name
        self._exists = name in state.topics
        self._broker_config = config
        self.own = state.config(ResourceType.TOPIC, name)

    def check_change(self, change: ConfigChange) -> None:
        """Accept any change: every topic has settings of its own."""

    def list_to_change(self, change: ConfigChange) -> str:
        item = TOPIC_CONFIGS.get(change.name)
        if item is None or item.key.type is not ConfigType.LIST:
            raise _no_list(change)
        return resolve_topic_config(change.name, self.own, self._broker_config).value

    def check(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        validate_topic_config(config)
        if not self._exists:
            message = f"The topic '{self.name}' does not exist."
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)


class _GroupConfig:
    def __init__(self, name: str, state: ClusterState, config: BrokerConfig) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        self.name = name
        self._broker_config = config
        self.own = state.config(ResourceType.GROUP, name)

    def check_change(self, change: ConfigChange) -> None:
        """Accept any change: every group has settings of its own."""

    def list_to_change(self, change: ConfigChange) -> str:
        raise _no_list(change)

    def check(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        validate_group_config(config, self._broker_config)


class _ClientMetricsConfig:
    def __init__(self, name: str, state: ClusterState) -> None:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        self.name = name
        self.own = state.config(ResourceType.CLIENT_METRICS, name)

    def check_change(self, change: ConfigChange) -> None:
        """Accept any change: every subscription has settings of its own."""

    def list_to_change(self, change: ConfigChange) -> str:
        """Refuse to change a part, as Kafka does: its controller does not know that these are lists."""
        raise _no_list(change)

    def check(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        from oncelog.broker.config.client_metrics import validate_client_metrics  # rarely set

        validate_client_metrics(config)


class _BrokerConfig:
    def __init__(self, name: str, state: ClusterState, config: BrokerConfig, node_id: int) -> None:
        if name:
            check_node_id(
                name,
                node_id,
                not_a_number="Node id must be an integer, but it is: {name}",
                another="Unexpected broker id, expected {node_id}, but received {name}",
            )
        self._config = config
        self._has_one_value = is_on(state.features, ELIGIBLE_LEADER_REPLICAS_VERSION)
        # Also for "+1", which Kafka would store under that name and never read.
        self.name = str(node_id) if name else ""
        self.own = state.config(ResourceType.BROKER, self.name)

    def check_change(self, change: ConfigChange) -> None:
        """Refuse to set the cluster's one value for a single broker or to remove it, as Kafka does with eligible leader
        replicas (KIP-966)."""
        if change.name != OF_THE_CLUSTER:
            return
        self._refuse_value_of_one_broker()
        if change.operation is Operation.DELETE and self._has_one_value:
            text = f"Cluster-level {OF_THE_CLUSTER} cannot be removed while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)

    def _refuse_value_of_one_broker(self) -> None:
        if self.name and self._has_one_value:
            text = f"Broker-level {OF_THE_CLUSTER} cannot be altered while ELR is enabled."
            raise KafkaError(ErrorCode.INVALID_CONFIG, text)

    def list_to_change(self, change: ConfigChange) -> str:
        key = BROKER_KEYS.get(change.name)
        if key is None or key.type is not ConfigType.LIST:
            message = f"Config value {change.operation.name.lower()} is not allowed for config key: {change.name}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        return self.own.get(change.name, self._config.get_str(change.name))

    def check(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        refuse = ErrorCode.INVALID_REQUEST
        if OF_THE_CLUSTER in changed:
            self._refuse_value_of_one_broker()
        _refuse_any(
            [name for name in changed if not may_change_while_running(name)], "Cannot update these configs dynamically"
        )
        _refuse_any(
            list(filter(is_of_one_listener, changed)),
            "These security configs can be dynamically updated only per-listener using the listener prefix",
        )
        for name in changed:
            if is_java_class(name):
                # Kafka omits the listener prefix in the name.
                missing = f"configuration {JAVA_CLASS}: Class {config[name]} could not be found."
                raise KafkaError(refuse, f"Invalid value {config[name]} for {missing}")
            key = BROKER_KEYS.get(name) or UNNEEDED_KEYS.get(name)
            if key is not None:
                try:
                    key.check(config[name])
                except ValueError as error:
                    raise KafkaError(refuse, invalid_value(name, config[name], error)) from None
        if any(name.startswith("group.") for name in changed):
            self._check_order(config, changed)
        if not self.name:
            _refuse_any(
                list(filter(is_of_one_broker, changed)),
                "Cannot update these configs at default cluster level, broker id must be specified",
            )

    def _check_order(self, config: Mapping[str, str], changed: Sequence[str]) -> None:
        from oncelog.broker.config.group_order import check_order  # hardly ever changed

        try:
            check_order(lambda name: int(config.get(name, self._config.get_str(name))), changed)
        except ValueError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _refuse_any(names: Sequence[str], why: str) -> None:
    if names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{why}: [{', '.join(names)}]")
