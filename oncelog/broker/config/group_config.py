"""The settings of one consumer group: names, bounds, and the corresponding broker settings (KIP-1043).

Owns: the table, validation, effective values. Does not own: what a group does with them. Invariant: a group never has a
setting that `validate_group_config` would reject.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.config.config_key import ConfigKey, ConfigType
from oncelog.broker.config.settings import BrokerConfig
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    key: ConfigKey
    synonym: str
    """The broker's setting, which applies to groups without their own."""
    lowest: str
    highest: str
    """The broker setting that is the upper bound."""


_TABLE = (
    GroupConfigKey(
        ConfigKey("consumer.heartbeat.interval.ms", ConfigType.INT, "5000", "How often members send heartbeats.", 1),
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    GroupConfigKey(
        ConfigKey("consumer.session.timeout.ms", ConfigType.INT, "45000", "When a silent member is removed.", 1),
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
    ),
    GroupConfigKey(
        ConfigKey("consumer.assignment.interval.ms", ConfigType.INT, "1000", "Minimum time between assignments.", 0),
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
    ),
)

GROUP_CONFIGS = {item.key.name: item for item in _TABLE}


def validate_group_config(config: Mapping[str, str], broker_config: BrokerConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) with Kafka's message."""
    for name, value in config.items():
        item = GROUP_CONFIGS.get(name)
        if item is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            number = int(item.key.check(value))
        except ValueError as error:
            message = f"Invalid value {value} for configuration {name}: {error}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None
        if number < broker_config.get_int(item.lowest):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {item.lowest}")
        if number > broker_config.get_int(item.highest):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {item.highest}")


def group_config_value(name: str, config: Mapping[str, str], broker_config: BrokerConfig) -> int:
    """Return the effective value for a group with `config`. Raises KeyError for other names."""
    item = GROUP_CONFIGS[name]
    own = config.get(name)
    if own is not None:
        return int(own)
    return broker_config.get_int(item.synonym)
