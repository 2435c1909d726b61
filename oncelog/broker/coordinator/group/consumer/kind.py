"""The entry of consumer groups in the table of types."""

from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import ConsumerMember
from oncelog.broker.coordinator.group.consumer.records import RECORDS
from oncelog.broker.coordinator.group.engine.commits import offset_rules
from oncelog.broker.coordinator.group.engine.kind import GroupKind, OffsetToCommit
from oncelog.broker.coordinator.group.engine.requests import CONSUMER_TYPE
from oncelog.broker.coordinator.group.engine.subscription import CONSUMER


def _owned_since(_: ConsumerGroup, member: ConsumerMember, offset: OffsetToCommit) -> int | None:
    return member.current.assignment_epoch(offset.topic_id, offset.partition[1])


CONSUMER_GROUPS = GroupKind(
    CONSUMER_TYPE,
    CONSUMER,
    ConsumerGroup,
    RECORDS,
    offset_rules(_owned_since, unsupported="", refuses_all=False),
)
