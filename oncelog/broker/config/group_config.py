"""The settings of one group: names, bounds, and the corresponding broker settings (KIP-1043, KIP-932, KIP-1071).

Owns: the table, validation, effective values. Does not own: what a group does with them. Invariant: a group never has a
setting that `validate_group_config` would reject.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.broker.config.config_key import ConfigKey, ConfigType, NotAChoice
from oncelog.broker.config.offset_reset import parse_offset_reset
from oncelog.broker.config.settings import BrokerConfig
from oncelog.protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class GroupConfigKey:
    key: ConfigKey
    synonym: str | None = None
    """The broker's setting, which applies to groups without their own; None if there is none."""
    lowest: str | None = None
    """The broker setting that is the lower bound."""
    highest: str | None = None
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
    GroupConfigKey(
        ConfigKey(
            "share.heartbeat.interval.ms",
            ConfigType.INT,
            "5000",
            "How often members of a share group send heartbeats.",
            1,
        ),
        "group.share.heartbeat.interval.ms",
        "group.share.min.heartbeat.interval.ms",
        "group.share.max.heartbeat.interval.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "share.session.timeout.ms", ConfigType.INT, "45000", "When a silent member of a share group is removed.", 1
        ),
        "group.share.session.timeout.ms",
        "group.share.min.session.timeout.ms",
        "group.share.max.session.timeout.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "share.assignment.interval.ms",
            ConfigType.INT,
            "1000",
            "Minimum time between assignments of a share group.",
            0,
        ),
        "group.share.assignment.interval.ms",
        "group.share.min.assignment.interval.ms",
        "group.share.max.assignment.interval.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "share.record.lock.duration.ms",
            ConfigType.INT,
            "30000",
            "How long a share consumer may hold a record.",
            1000,
        ),
        "group.share.record.lock.duration.ms",
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    GroupConfigKey(
        ConfigKey("share.delivery.count.limit", ConfigType.INT, "5", "How often a record is delivered at most.", 2),
        "group.share.delivery.count.limit",
        "group.share.min.delivery.count.limit",
        "group.share.max.delivery.count.limit",
    ),
    GroupConfigKey(
        ConfigKey(
            "share.partition.max.record.locks",
            ConfigType.INT,
            "2000",
            "How many records of a partition may be in flight.",
            100,
        ),
        "group.share.partition.max.record.locks",
        "group.share.min.partition.max.record.locks",
        "group.share.max.partition.max.record.locks",
    ),
    GroupConfigKey(
        ConfigKey(
            "streams.heartbeat.interval.ms",
            ConfigType.INT,
            "5000",
            "How often members of a streams group send heartbeats.",
            1,
        ),
        "group.streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "streams.session.timeout.ms",
            ConfigType.INT,
            "45000",
            "When a silent member of a streams group is removed.",
            1,
        ),
        "group.streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "streams.assignment.interval.ms",
            ConfigType.INT,
            "1000",
            "Minimum time between assignments of a streams group.",
            0,
        ),
        "group.streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
    GroupConfigKey(
        ConfigKey("streams.num.standby.replicas", ConfigType.INT, "0", "How many standby members each task has.", 0),
        "group.streams.num.standby.replicas",
        highest="group.streams.max.standby.replicas",
    ),
    GroupConfigKey(
        ConfigKey(
            "streams.initial.rebalance.delay.ms",
            ConfigType.INT,
            "3000",
            "How long a new streams group waits for more members before the first assignment.",
            0,
        ),
        "group.streams.initial.rebalance.delay.ms",
    ),
    GroupConfigKey(
        ConfigKey(
            "share.auto.offset.reset",
            ConfigType.STRING,
            "latest",
            "Where a share group begins: latest, earliest, or by_duration:<PnDTnHnMn.nS>.",
            parse=parse_offset_reset,
        )
    ),
    GroupConfigKey(
        ConfigKey(
            "share.isolation.level",
            ConfigType.STRING,
            "read_uncommitted",
            "Whether records of transactions that are open or aborted are delivered.",
            choices=("read_committed", "read_uncommitted"),
        )
    ),
    GroupConfigKey(
        ConfigKey(
            "share.renew.acknowledge.enable",
            ConfigType.BOOLEAN,
            "true",
            "Whether share consumers may prolong the lock of a record.",
        )
    ),
)

GROUP_CONFIGS = {item.key.name: item for item in _TABLE}
_SESSIONS = ("consumer", "share", "streams")
"""The types of groups whose session timeout must be longer than the interval between heartbeats."""


def validate_group_config(config: Mapping[str, str], broker_config: BrokerConfig) -> None:
    """Raises KafkaError(INVALID_CONFIG) with Kafka's message."""
    for name, value in config.items():
        item = GROUP_CONFIGS.get(name)
        if item is None:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {name}")
        try:
            text = item.key.check(value)
        except ValueError as error:
            shown = error.item if isinstance(error, NotAChoice) else value
            message = f"Invalid value {shown} for configuration {name}: {error}"
            raise KafkaError(ErrorCode.INVALID_CONFIG, message) from None
        if item.lowest is not None and int(text) < broker_config.get_int(item.lowest):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be greater than or equal to {item.lowest}")
        if item.highest is not None and int(text) > broker_config.get_int(item.highest):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{name} must be less than or equal to {item.highest}")
    for kind in _SESSIONS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if group_config_value(session, config, broker_config) <= group_config_value(heartbeat, config, broker_config):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{session} must be greater than {heartbeat}")


def group_config_value(name: str, config: Mapping[str, str], broker_config: BrokerConfig) -> int:
    """Return the effective value for a group with `config`, of a setting that is a number. Raises KeyError for other
    names."""
    item = GROUP_CONFIGS[name]
    own = config.get(name)
    if own is not None:
        number = int(own)
        # The bounds may have changed since: Kafka caps a value then.
        if item.lowest is not None:
            number = max(number, broker_config.get_int(item.lowest))
        return number if item.highest is None else min(number, broker_config.get_int(item.highest))
    return int(item.key.default or 0) if item.synonym is None else broker_config.get_int(item.synonym)


def group_config_text(name: str, config: Mapping[str, str]) -> str:
    """Return the effective value of a setting that no broker setting stands behind. Raises KeyError for other names."""
    return config.get(name) or GROUP_CONFIGS[name].key.default or ""
