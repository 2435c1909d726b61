"""The settings of the groups of one type, as values (KIP-848, KIP-932, KIP-1043, KIP-1071).

Owns: where each setting comes from, and a value for each group, made once per change. Does not own: names and bounds
(`group_config`), the broker's settings (`live`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from oncelog.broker.cluster.features import is_on
from oncelog.broker.cluster.metadata_log import MetadataLog, ResourceType
from oncelog.broker.config.group_config import group_config_text, group_config_value
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import BrokerConfig

GROUP_VERSION = "group.version"
STREAMS_VERSION = "streams.version"
PROTOCOLS = "group.coordinator.rebalance.protocols"
_PROTOCOL_OF = {GROUP_VERSION: "consumer", STREAMS_VERSION: "streams"}
"""The protocol that the setting, which does not change while a broker runs, must name besides the feature being on. As
in Kafka, share groups depend on their feature alone."""


class MigrationPolicy(Enum):
    """`group.consumer.migration.policy`: which groups with members may change their protocol."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE)


@dataclass(frozen=True, slots=True)
class ConsumerGroupConfig:
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    assignors: Sequence[str]
    """The default first."""
    max_size: int
    classic_max_size: int
    migration_policy: MigrationPolicy


@dataclass(frozen=True, slots=True)
class ShareGroupConfig:
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    isolation_level: str
    """`read_committed` or `read_uncommitted`."""
    auto_offset_reset: str
    """The setting as text; `offset_reset` reads it."""
    renew_acknowledge_enable: bool
    assignor: str
    """The only assignor, in Kafka as well."""
    max_size: int
    max_share_sessions: int
    initialize_retry_interval_ms: int


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    num_standby_replicas: int
    max_size: int


ConfigT = TypeVar("ConfigT")
Parse = Callable[[Mapping[str, str], BrokerConfig], ConfigT]


class GroupSettings(Generic[ConfigT]):
    """The settings of all groups of a type, as of now."""

    def __init__(self, live_config: LiveConfig, metadata: MetadataLog, parse: Parse[ConfigT], feature: str) -> None:
        """`feature` is the finalized feature whose version 1 enables the type."""
        self._live_config = live_config
        self._metadata = metadata
        self._parse = parse
        self._feature = feature
        protocols = live_config.current.get_list(PROTOCOLS)
        self._is_disabled = feature in _PROTOCOL_OF and _PROTOCOL_OF[feature] not in protocols
        self._known: dict[str, ConfigT] = {}
        """The parsed settings by group; under no name those of groups without settings of their own."""
        live_config.watch(lambda *_: self._known.clear())

    @property
    def is_enabled(self) -> bool:
        return not self._is_disabled and is_on(self._metadata.state.features, self._feature)

    def of(self, group_id: str) -> ConfigT:
        own = self._metadata.state.configs.get((ResourceType.GROUP, group_id), {})
        name = group_id if own else ""
        config = self._known.get(name)
        if config is None:
            config = self._known[name] = self._parse(own, self._live_config.current)
        return config


def consumer_group_config(own: Mapping[str, str], broker: BrokerConfig) -> ConsumerGroupConfig:
    return ConsumerGroupConfig(
        session_timeout_ms=group_config_value("consumer.session.timeout.ms", own, broker),
        heartbeat_interval_ms=group_config_value("consumer.heartbeat.interval.ms", own, broker),
        assignment_interval_ms=group_config_value("consumer.assignment.interval.ms", own, broker),
        assignors=[name.strip() for name in broker.get_str("group.consumer.assignors").split(",")],
        max_size=broker.get_int("group.consumer.max.size"),
        classic_max_size=broker.get_int("group.max.size"),
        migration_policy=MigrationPolicy(broker.get_str("group.consumer.migration.policy").lower()),
    )


def share_group_config(own: Mapping[str, str], broker: BrokerConfig) -> ShareGroupConfig:
    return ShareGroupConfig(
        session_timeout_ms=group_config_value("share.session.timeout.ms", own, broker),
        heartbeat_interval_ms=group_config_value("share.heartbeat.interval.ms", own, broker),
        assignment_interval_ms=group_config_value("share.assignment.interval.ms", own, broker),
        record_lock_duration_ms=group_config_value("share.record.lock.duration.ms", own, broker),
        delivery_count_limit=group_config_value("share.delivery.count.limit", own, broker),
        partition_max_record_locks=group_config_value("share.partition.max.record.locks", own, broker),
        isolation_level=group_config_text("share.isolation.level", own),
        auto_offset_reset=group_config_text("share.auto.offset.reset", own),
        renew_acknowledge_enable=group_config_text("share.renew.acknowledge.enable", own) == "true",
        assignor=broker.get_str("group.share.assignors"),
        max_size=broker.get_int("group.share.max.size"),
        max_share_sessions=broker.get_int("group.share.max.share.sessions"),
        initialize_retry_interval_ms=broker.get_int("group.share.initialize.retry.interval.ms"),
    )


def streams_group_config(own: Mapping[str, str], broker: BrokerConfig) -> StreamsGroupConfig:
    return StreamsGroupConfig(
        session_timeout_ms=group_config_value("streams.session.timeout.ms", own, broker),
        heartbeat_interval_ms=group_config_value("streams.heartbeat.interval.ms", own, broker),
        assignment_interval_ms=group_config_value("streams.assignment.interval.ms", own, broker),
        initial_rebalance_delay_ms=group_config_value("streams.initial.rebalance.delay.ms", own, broker),
        num_standby_replicas=group_config_value("streams.num.standby.replicas", own, broker),
        max_size=broker.get_int("group.streams.max.size"),
    )
