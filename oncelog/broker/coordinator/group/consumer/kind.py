"""The entry of consumer groups in the table of types."""

from oncelog.broker.coordinator.group.consumer.commits import check_commit, check_reader, check_transactional
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.records import CONSUMER_GROUP_TYPE, decode
from oncelog.broker.coordinator.group.consumer.update import tombstones
from oncelog.broker.coordinator.group.kind import GroupKind, OffsetRules
from oncelog.broker.coordinator.group.requests import CONSUMER_TYPE
from oncelog.broker.coordinator.group.subscription import CONSUMER

CONSUMER_GROUPS = GroupKind(
    CONSUMER_TYPE,
    CONSUMER,
    CONSUMER_GROUP_TYPE,
    ConsumerGroup,
    decode,
    tombstones,
    OffsetRules(check_commit, check_transactional, check_reader),
)
