"""Makes what share-partitions are used with, once a share consumer needs it.

Owns: its parts. Separate from `broker.assembly.broker` because it is imported late: few brokers have share groups.
"""

from oncelog.broker.assembly.group_settings import ShareSettings
from oncelog.broker.requests.parts import Broker
from oncelog.broker.sharing.manager import SharePartitionManager


def assemble_sharing(broker: Broker) -> SharePartitionManager:
    coordinator = broker.share_coordinator
    manager = SharePartitionManager(broker, coordinator, ShareSettings(broker.live_config, broker.metadata))
    coordinator.watch_resets(manager.on_reset)
    return manager
