"""Makes the group coordinator, once it is needed by a request or found in the log.

Owns: its parts and its limits. Separate from `broker.assembly.broker` because it is imported late: the code of groups
is a fifth of what a broker would otherwise load before its first response.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.config.group_settings import (
    GROUP_VERSION,
    STREAMS_VERSION,
    GroupSettings,
    consumer_group_config,
    streams_group_config,
)
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.coordinator.group.coordinator import GroupCoordinator, GroupLimits
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.turns.slices import Slices

if TYPE_CHECKING:
    from oncelog.broker.coordinator.group.share.coordinator import ShareGroupCoordinator
    from oncelog.broker.coordinator.group.share.ports import ShareStates
    from oncelog.broker.coordinator.group.streams.coordinator import StreamsGroupCoordinator
    from oncelog.broker.turns.machine import System


def assemble_groups(
    config: BrokerConfig,
    system: "System",
    runtime: CoordinatorRuntime[GroupShardLife],
    topics: Topics,
    live_config: LiveConfig,
    metadata: MetadataLog,
    share_states: "Callable[[], ShareStates]",
    slices: Slices,
) -> GroupCoordinator:
    def make_shares() -> "ShareGroupCoordinator":
        from oncelog.broker.assembly.share_groups import assemble_share_groups

        return assemble_share_groups(runtime, system.clock, topics, live_config, metadata, share_states, slices)

    def make_streams() -> "StreamsGroupCoordinator":
        from oncelog.broker.coordinator.group.streams.coordinator import StreamsGroupCoordinator

        settings = GroupSettings(live_config, metadata, streams_group_config, STREAMS_VERSION)
        return StreamsGroupCoordinator(runtime, system.clock, system.scheduler, topics, settings)

    groups = GroupCoordinator(
        runtime,
        system.clock,
        system.scheduler,
        system.entropy,
        _limits(config),
        topics,
        GroupSettings(live_config, metadata, consumer_group_config, GROUP_VERSION),
        make_shares,
        make_streams,
    )
    topics.watch(groups.on_topic_changed)
    topics.watch_removals(groups.on_topic_removed)
    return groups


def _limits(config: BrokerConfig) -> GroupLimits:
    return GroupLimits(
        min_session_timeout_ms=config.get_int("group.min.session.timeout.ms"),
        max_session_timeout_ms=config.get_int("group.max.session.timeout.ms"),
        initial_rebalance_delay_ms=config.get_int("group.initial.rebalance.delay.ms"),
        max_size=config.get_int("group.max.size"),
        offset_metadata_max_bytes=config.get_int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.get_int("offsets.retention.minutes") * 60_000,
        offsets_retention_check_interval_ms=config.get_int("offsets.retention.check.interval.ms"),
        regex_refresh_interval_ms=config.get_int("group.consumer.regex.refresh.interval.ms"),
    )
