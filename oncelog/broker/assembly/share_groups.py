"""Makes the coordinator of share groups, once it is needed by a request or a share group is found in the log.

Owns: its parts. Separate from `broker.assembly.groups` because it is imported late: few brokers have share groups.
"""

from collections.abc import Callable

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.cluster.metadata_log import MetadataLog
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.config.group_settings import GroupSettings, share_group_config
from oncelog.broker.config.live import LiveConfig
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.share.coordinator import ShareGroupCoordinator
from oncelog.broker.coordinator.group.share.ports import ShareStates
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Slices


def assemble_share_groups(
    runtime: CoordinatorRuntime[GroupShardLife],
    clock: Clock,
    topics: Topics,
    live_config: LiveConfig,
    metadata: MetadataLog,
    states: Callable[[], ShareStates],
    slices: Slices,
) -> ShareGroupCoordinator:
    settings = GroupSettings(live_config, metadata, share_group_config, SHARE_VERSION)
    return ShareGroupCoordinator(runtime, clock, topics, settings, states, slices)
