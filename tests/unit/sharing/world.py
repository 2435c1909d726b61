"""A broker with share groups whose share coordinator is in memory, and a topic that they read."""

from typing import Any
from uuid import UUID

from oncelog.broker.cluster.features import SHARE_VERSION
from oncelog.broker.config.group_settings import GroupSettings, share_group_config
from oncelog.broker.coordinator.share.values import SharePartitionKey
from oncelog.broker.requests.parts import WhenNeeded
from oncelog.broker.sharing.manager import SharePartitionManager
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.clients.fetch_session import append, create
from tests.clients.share_member import Key, ShareMember
from tests.fakes.broker import VirtualBroker
from tests.fakes.share_states import FakeShareStates

GROUP, TOPIC = "group", "topic"
LOCK_MS = 30_000
_GROUP_RESOURCE = 32


class World:
    def __init__(self, *overrides: str, partitions: int = 1) -> None:
        self.states = FakeShareStates()
        self.use(VirtualBroker(*overrides))
        self.topic_id = create(self.broker, TOPIC, partitions)
        self.keys: list[Key] = [(self.topic_id, index) for index in range(partitions)]
        for index in range(partitions):
            self.initialize(self.topic_id, index)

    def use(self, broker: VirtualBroker) -> None:
        """Use another broker, perhaps the next one on the same disk."""
        self.broker = broker
        parts = broker.broker
        settings = GroupSettings(parts.live_config, parts.metadata, share_group_config, SHARE_VERSION)
        self.manager = SharePartitionManager(parts, self.states, settings)
        parts.sharing_when_needed = WhenNeeded(lambda: self.manager)

    def initialize(self, topic_id: UUID, index: int = 0, start_offset: int = 0, group_id: str = GROUP) -> None:
        self.states.initialize(SharePartitionKey(group_id, topic_id, index), 0, start_offset)

    def state_key(self, index: int = 0) -> SharePartitionKey:
        return SharePartitionKey(GROUP, self.topic_id, index)

    def member(self, member_id: str = "member", version: int = 2) -> ShareMember:
        return ShareMember(self.broker, GROUP, member_id, version)

    def append(self, count: int = 1, partition: int = 0, **options: Any) -> None:
        append(self.broker, TOPIC, partition, count, **options)

    def let_pass(self, delay_ms: int) -> None:
        self.broker.time.advance(delay_ms)

    def configure(self, **values: str) -> None:
        """Set settings of the group, whose names have dots for underscores."""
        configs = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in values.items()]
        resource = AlterConfigsResource(resource_type=_GROUP_RESOURCE, resource_name=GROUP, configs=configs)
        (answer,) = self.broker.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert answer.error_code == ErrorCode.NONE, answer.error_message


def reading(count: int = 1) -> tuple[World, ShareMember]:
    """A world with so many records in one batch, and a member that has acquired them."""
    world = World()
    world.append(count)
    member = world.member()
    member.fetch(world.keys)
    return world, member
