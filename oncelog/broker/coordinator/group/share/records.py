"""Share groups in `__consumer_offsets`: each record as a change of one group, in Kafka's formats (KIP-932).

Owns: encoding and decoding, and which keys belong to share groups. Does not own: the effect of a change (`group`).
Each change names its subject; a value of None is a tombstone. Values are written in version 0, the only one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.member import MemberState
from oncelog.broker.coordinator.group.records import decode_modern, encode_modern
from oncelog.broker.coordinator.group.share.member import CurrentAssignment, MemberMetadata
from oncelog.broker.coordinator.group.share.states import NO_STATES, KnownStates, TopicStates
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated import (
    share_group_current_member_assignment_key,
    share_group_current_member_assignment_value,
    share_group_member_metadata_key,
    share_group_member_metadata_value,
    share_group_metadata_key,
    share_group_metadata_value,
    share_group_state_partition_metadata_key,
    share_group_state_partition_metadata_value,
    share_group_target_assignment_member_key,
    share_group_target_assignment_member_value,
    share_group_target_assignment_metadata_key,
    share_group_target_assignment_metadata_value,
)
from oncelog.protocol.generated.share_group_current_member_assignment_key import ShareGroupCurrentMemberAssignmentKey
from oncelog.protocol.generated.share_group_current_member_assignment_value import (
    ShareGroupCurrentMemberAssignmentValue,
)
from oncelog.protocol.generated.share_group_current_member_assignment_value import (
    TopicPartitions as OwnedPartitions,
)
from oncelog.protocol.generated.share_group_member_metadata_key import ShareGroupMemberMetadataKey
from oncelog.protocol.generated.share_group_member_metadata_value import ShareGroupMemberMetadataValue
from oncelog.protocol.generated.share_group_metadata_key import ShareGroupMetadataKey
from oncelog.protocol.generated.share_group_metadata_value import ShareGroupMetadataValue
from oncelog.protocol.generated.share_group_state_partition_metadata_key import ShareGroupStatePartitionMetadataKey
from oncelog.protocol.generated.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicInfo,
    TopicPartitionsInfo,
)
from oncelog.protocol.generated.share_group_target_assignment_member_key import ShareGroupTargetAssignmentMemberKey
from oncelog.protocol.generated.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from oncelog.protocol.generated.share_group_target_assignment_metadata_key import ShareGroupTargetAssignmentMetadataKey
from oncelog.protocol.generated.share_group_target_assignment_metadata_value import (
    ShareGroupTargetAssignmentMetadataValue,
)
from oncelog.protocol.message import Message

SHARE_GROUP_TYPE = 11
"""The type of the record whose tombstone ends a group."""

_MODULES: Mapping[int, tuple[ModuleType, ModuleType]] = {
    10: (share_group_member_metadata_key, share_group_member_metadata_value),
    SHARE_GROUP_TYPE: (share_group_metadata_key, share_group_metadata_value),
    12: (share_group_target_assignment_metadata_key, share_group_target_assignment_metadata_value),
    13: (share_group_target_assignment_member_key, share_group_target_assignment_member_value),
    14: (share_group_current_member_assignment_key, share_group_current_member_assignment_value),
    15: (share_group_state_partition_metadata_key, share_group_state_partition_metadata_value),
}


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """The group's epoch and the hash of its topics at that time."""

    epoch: int
    metadata_hash: int


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The group epoch of the target assignment, and when it was computed."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GroupChanged:
    group_epoch: GroupEpoch | None


@dataclass(frozen=True, slots=True)
class TargetEpochChanged:
    target_epoch: TargetEpoch | None


@dataclass(frozen=True, slots=True)
class MemberChanged:
    member_id: str
    metadata: MemberMetadata | None


@dataclass(frozen=True, slots=True)
class TargetChanged:
    member_id: str
    partitions: TopicPartitions | None


@dataclass(frozen=True, slots=True)
class CurrentChanged:
    member_id: str
    current: CurrentAssignment | None


@dataclass(frozen=True, slots=True)
class StatesChanged:
    states: KnownStates | None


Change = GroupChanged | TargetEpochChanged | MemberChanged | TargetChanged | CurrentChanged | StatesChanged


def encode(group_id: str, change: Change) -> CoordinatorRecord:
    return encode_modern(*_messages(group_id, change))


def _messages(group_id: str, change: Change) -> tuple[Message, Message | None]:
    match change:
        case GroupChanged(epoch):
            group_value = None if epoch is None else ShareGroupMetadataValue(epoch.epoch, epoch.metadata_hash)
            return ShareGroupMetadataKey(group_id), group_value
        case TargetEpochChanged(target):
            target_value = (
                None if target is None else ShareGroupTargetAssignmentMetadataValue(target.epoch, target.timestamp_ms)
            )
            return ShareGroupTargetAssignmentMetadataKey(group_id), target_value
        case MemberChanged(member_id, metadata):
            value = None if metadata is None else _metadata_value(metadata)
            return ShareGroupMemberMetadataKey(group_id, member_id), value
        case TargetChanged(member_id, partitions):
            member_value = None if partitions is None else _target_value(partitions)
            return ShareGroupTargetAssignmentMemberKey(group_id, member_id), member_value
        case CurrentChanged(member_id, current):
            current_value = None if current is None else _current_value(current)
            return ShareGroupCurrentMemberAssignmentKey(group_id, member_id), current_value
        case StatesChanged(states):
            states_value = None if states is None else _states_value(states)
            return ShareGroupStatePartitionMetadataKey(group_id), states_value


def _metadata_value(metadata: MemberMetadata) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(
        metadata.rack_id, metadata.client_id, metadata.client_host, metadata.topic_names
    )


def _target_value(partitions: TopicPartitions) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]
    )


def _current_value(current: CurrentAssignment) -> ShareGroupCurrentMemberAssignmentValue:
    return ShareGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_epoch,
        MemberState.STABLE,
        [OwnedPartitions(topic_id, sorted(numbers)) for topic_id, numbers in current.assigned.items()],
    )


def _states_value(states: KnownStates) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        _infos(states.initializing),
        _infos(states.initialized),
        [TopicInfo(topic_id, name) for topic_id, name in states.deleting.items()],
    )


def _infos(topics: Mapping[UUID, TopicStates]) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, each.name, sorted(each.partitions)) for topic_id, each in topics.items()]


def decode(record: CoordinatorRecord) -> tuple[str, Change]:
    """Return the group of a record, and the change; its key is one of share groups. Raises ProtocolError."""
    key, value = decode_modern(record, _MODULES)
    return key.group_id, _change(key, value)


def _change(key: Message, value: Message | None) -> Change:
    match key:
        case ShareGroupTargetAssignmentMetadataKey():
            return TargetEpochChanged(_target_epoch(value))
        case ShareGroupMemberMetadataKey(member_id=member_id):
            return MemberChanged(member_id, _metadata(value))
        case ShareGroupTargetAssignmentMemberKey(member_id=member_id):
            return TargetChanged(member_id, _target(value))
        case ShareGroupCurrentMemberAssignmentKey(member_id=member_id):
            return CurrentChanged(member_id, _current(value))
        case ShareGroupStatePartitionMetadataKey():
            return StatesChanged(_states(value))
        case _:
            return GroupChanged(_group_epoch(value))


def _group_epoch(value: Message | None) -> GroupEpoch | None:
    return GroupEpoch(value.epoch, value.metadata_hash) if isinstance(value, ShareGroupMetadataValue) else None


def _target_epoch(value: Message | None) -> TargetEpoch | None:
    if not isinstance(value, ShareGroupTargetAssignmentMetadataValue):
        return None
    return TargetEpoch(value.assignment_epoch, value.assignment_timestamp)


def _metadata(value: Message | None) -> MemberMetadata | None:
    if not isinstance(value, ShareGroupMemberMetadataValue):
        return None
    return MemberMetadata(value.rack_id, value.client_id, value.client_host, tuple(value.subscribed_topic_names))


def _target(value: Message | None) -> TopicPartitions | None:
    if not isinstance(value, ShareGroupTargetAssignmentMemberValue):
        return None
    return _partitions((entry.topic_id, entry.partitions) for entry in value.topic_partitions)


def _current(value: Message | None) -> CurrentAssignment | None:
    if not isinstance(value, ShareGroupCurrentMemberAssignmentValue):
        return None
    assigned = _partitions((entry.topic_id, entry.partitions) for entry in value.assigned_partitions)
    return CurrentAssignment(value.member_epoch, value.previous_member_epoch, assigned)


def _partitions(entries: Iterable[tuple[UUID, Sequence[int]]]) -> TopicPartitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in entries}


def _states(value: Message | None) -> KnownStates | None:
    if not isinstance(value, ShareGroupStatePartitionMetadataValue):
        return None
    return NO_STATES._replace(
        initializing=_topics(value.initializing_topics),
        initialized=_topics(value.initialized_topics),
        deleting={entry.topic_id: entry.topic_name for entry in value.deleting_topics},
    )


def _topics(entries: Sequence[TopicPartitionsInfo]) -> Mapping[UUID, TopicStates]:
    return {entry.topic_id: TopicStates(entry.topic_name, frozenset(entry.partitions)) for entry in entries}
