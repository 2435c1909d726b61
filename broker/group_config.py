"""The settings of one consumer group: names, bounds, and the broker's settings that stand behind them (KIP-1043).

Owns: the table, validation, what a setting of a group comes to. Does not own: what a group does with it. Invariant: a
group never holds a setting that `validate_group_config` would refuse.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from broker.config import BrokerConfig
from broker.config_keys import BROKER_KEYS, ConfigKey, ConfigType
from protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    key: ConfigKey
    synonym: str
    """The broker's setting; its bounds are the broker's settings with `.min.` and `.max.` in their names."""
    minimum: int
    maximum: int
    """What bounds it where the broker has no such settings."""

    def bound(self, kind: str) -> str:
        prefix = "group.consumer."
        return f"{prefix}{kind}.{self.synonym.removeprefix(prefix)}"


_TABLE = (
    GroupConfigKey(
        ConfigKey("consumer.heartbeat.interval.ms", ConfigType.INT, "5000", "How often members report.", 1),
        "group.consumer.heartbeat.interval.ms",
        5_000,
        15_000,
    ),
    GroupConfigKey(
        ConfigKey("consumer.session.timeout.ms", ConfigType.INT, "45000", "When a silent member counts as gone.", 1),
        "group.consumer.session.timeout.ms",
        45_000,
        60_000,
    ),
)

GROUP_CONFIGS = {item.key.name: item for item in _TABLE}


def validate_group_config(config: Mapping[str, str], broker_config: BrokerConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) with the text that Kafka would answer."""
    for name, value in config.items():
        item = GROUP_CONFIGS.get(name)
        if item is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            number = int(item.key.check(value))
        except ValueError as error:
            message = f"Invalid value {value} for configuration {name}: {error}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None
        lowest, highest = item.bound("min"), item.bound("max")
        if number < _number(broker_config, lowest, item.minimum):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {lowest}")
        if number > _number(broker_config, highest, item.maximum):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {highest}")


def group_config_value(name: str, config: Mapping[str, str], broker_config: BrokerConfig) -> int:
    """What a setting comes to for a group with `config`. Raises KeyError for other names."""
    item = GROUP_CONFIGS[name]
    own = config.get(name)
    if own is not None:
        return int(own)
    return _number(broker_config, item.synonym, int(item.key.default or 0))


def _number(broker_config: BrokerConfig, name: str, otherwise: int) -> int:
    return broker_config.get_int(name) if name in BROKER_KEYS else otherwise
