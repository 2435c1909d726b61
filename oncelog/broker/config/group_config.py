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


def _number(name: str, default: str, doc: str, minimum: int) -> GroupConfigKey:
    """Return a key whose three broker settings are named as Kafka names them: `share.x` and `group.share.x`,
    `group.share.min.x`, `group.share.max.x`."""
    kind, _, rest = name.partition(".")
    return GroupConfigKey(
        ConfigKey(name, ConfigType.INT, default, doc, minimum),
        f"group.{kind}.{rest}",
        f"group.{kind}.min.{rest}",
        f"group.{kind}.max.{rest}",
    )


_TABLE = (
    _number("consumer.heartbeat.interval.ms", "5000", "How often members send heartbeats.", 1),
    _number("consumer.session.timeout.ms", "45000", "When a silent member is removed.", 1),
    _number("consumer.assignment.interval.ms", "1000", "Minimum time between assignments.", 0),
    _number("share.heartbeat.interval.ms", "5000", "How often members of a share group send heartbeats.", 1),
    _number("share.session.timeout.ms", "45000", "When a silent member of a share group is removed.", 1),
    _number("share.assignment.interval.ms", "1000", "Minimum time between assignments of a share group.", 0),
    _number("share.record.lock.duration.ms", "30000", "How long a share consumer may hold a record.", 1000),
    _number("share.delivery.count.limit", "5", "How often a record is delivered at most.", 2),
    _number("share.partition.max.record.locks", "2000", "How many records of a partition may be in flight.", 100),
    _number("streams.heartbeat.interval.ms", "5000", "How often members of a streams group send heartbeats.", 1),
    _number("streams.session.timeout.ms", "45000", "When a silent member of a streams group is removed.", 1),
    _number("streams.assignment.interval.ms", "1000", "Minimum time between assignments of a streams group.", 0),
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
