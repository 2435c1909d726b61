"""Makes what share-partitions are used with, once a share consumer needs it.

Owns: its parts. Separate from `broker.assembly.broker` because it is imported late: few brokers have share groups.
"""

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.config.group_settings import GroupSettings, share_group_config
from oncelog.broker.requests.parts import Broker
from oncelog.broker.sharing.manager import SharePartitionManager


def assemble_sharing(broker: Broker) -> SharePartitionManager:
    coordinator = broker.share_coordinator
    settings = GroupSettings(broker.live_config, broker.metadata, share_group_config, SHARE_VERSION)
    manager = SharePartitionManager(broker, coordinator, settings)
    coordinator.watch_resets(manager.on_reset)
    return manager
