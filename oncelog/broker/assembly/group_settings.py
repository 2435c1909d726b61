"""The current settings of consumer groups, share groups and streams groups (KIP-848, KIP-932, KIP-1043, KIP-1071).

Owns: where each setting comes from. Does not own: the values (`broker.config.live`), bounds
(`broker.config.group_config`).
"""

from collections.abc import Sequence

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.cluster.metadata_log import MetadataLog, ResourceType
from oncelog.broker.config.group_config import group_config_text, group_config_value
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.coordinator.group.consumer.ports import MigrationPolicy

GROUP_VERSION = "group.version"
STREAMS_VERSION = "streams.version"


class GroupSettings:
    def __init__(self, live_config: LiveConfig, metadata: MetadataLog) -> None:
        self._live_config = live_config
        self._metadata = metadata

    @property
    def is_enabled(self) -> bool:
        return self._metadata.state.features.get(GROUP_VERSION, 0) >= 1

    @property
    def assignors(self) -> Sequence[str]:
        return [name.strip() for name in self._live_config.current.get_str("group.consumer.assignors").split(",")]

    @property
    def max_size(self) -> int:
        return self._live_config.current.get_int("group.consumer.max.size")

    @property
    def classic_max_size(self) -> int:
        return self._live_config.current.get_int("group.max.size")

    @property
    def migration_policy(self) -> MigrationPolicy:
        return MigrationPolicy(self._live_config.current.get_str("group.consumer.migration.policy").lower())

    def session_timeout_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "consumer.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "consumer.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._of_group(group_id, "consumer.assignment.interval.ms")

    def _of_group(self, group_id: str, name: str) -> int:
        config = self._metadata.state.config(ResourceType.GROUP, group_id)
        return group_config_value(name, config, self._live_config.current)


class ShareSettings:
    """The settings of share groups, for their coordinator and for those who hand out records."""

    def __init__(self, live_config: LiveConfig, metadata: MetadataLog) -> None:
        self._live_config = live_config
        self._metadata = metadata

    @property
    def is_enabled(self) -> bool:
        return self._metadata.state.features.get(SHARE_VERSION, 0) >= 1

    @property
    def assignor(self) -> str:
        return self._live_config.current.get_str("group.share.assignors")

    @property
    def max_size(self) -> int:
        return self._live_config.current.get_int("group.share.max.size")

    @property
    def max_share_sessions(self) -> int:
        return self._live_config.current.get_int("group.share.max.share.sessions")

    @property
    def initialize_retry_interval_ms(self) -> int:
        return self._live_config.current.get_int("group.share.initialize.retry.interval.ms")

    def session_timeout_ms(self, group_id: str) -> int:
        return self._number(group_id, "share.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._number(group_id, "share.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._number(group_id, "share.assignment.interval.ms")

    def record_lock_duration_ms(self, group_id: str) -> int:
        return self._number(group_id, "share.record.lock.duration.ms")

    def delivery_count_limit(self, group_id: str) -> int:
        return self._number(group_id, "share.delivery.count.limit")

    def partition_max_record_locks(self, group_id: str) -> int:
        return self._number(group_id, "share.partition.max.record.locks")

    def isolation_level(self, group_id: str) -> str:
        return self._text(group_id, "share.isolation.level")

    def auto_offset_reset(self, group_id: str) -> str:
        return self._text(group_id, "share.auto.offset.reset")

    def renew_acknowledge_enable(self, group_id: str) -> bool:
        return self._text(group_id, "share.renew.acknowledge.enable") == "true"

    def _number(self, group_id: str, name: str) -> int:
        config = self._metadata.state.config(ResourceType.GROUP, group_id)
        return group_config_value(name, config, self._live_config.current)

    def _text(self, group_id: str, name: str) -> str:
        return group_config_text(name, self._metadata.state.config(ResourceType.GROUP, group_id))


class StreamsSettings:
    """The settings of streams groups, for their coordinator."""

    def __init__(self, live_config: LiveConfig, metadata: MetadataLog) -> None:
        self._live_config = live_config
        self._metadata = metadata

    @property
    def is_enabled(self) -> bool:
        return self._metadata.state.features.get(STREAMS_VERSION, 0) >= 1

    @property
    def max_size(self) -> int:
        return self._live_config.current.get_int("group.streams.max.size")

    def session_timeout_ms(self, group_id: str) -> int:
        return self._number(group_id, "streams.session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._number(group_id, "streams.heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._number(group_id, "streams.assignment.interval.ms")

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        return self._number(group_id, "streams.initial.rebalance.delay.ms")

    def standby_replicas(self, group_id: str) -> int:
        return self._number(group_id, "streams.num.standby.replicas")

    def _number(self, group_id: str, name: str) -> int:
        config = self._metadata.state.config(ResourceType.GROUP, group_id)
        return group_config_value(name, config, self._live_config.current)
