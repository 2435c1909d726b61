"""The records of share groups in `__consumer_offsets`, in Kafka's formats (KIP-932).

Owns: the table of their types. Does not own: how the table is used (`engine.kind`), the effect of a change (`group`).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.engine.changes import CurrentChanged, MemberChanged, TargetChanged
from oncelog.broker.coordinator.group.engine.kind import RecordType, epoch_records
from oncelog.broker.coordinator.group.share.member import CurrentAssignment, MemberMetadata
from oncelog.broker.coordinator.group.share.states import KnownStates, TopicStates
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

_STABLE = 0
"""The only state of a member in Kafka's records."""


class StatesChanged(NamedTuple):
    states: KnownStates | None


def _metadata_value(metadata: MemberMetadata) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(
        metadata.rack_id, metadata.client_id, metadata.client_host, metadata.topic_names
    )


def _metadata(value: ShareGroupMemberMetadataValue) -> MemberMetadata:
    return MemberMetadata(value.rack_id, value.client_id, value.client_host, tuple(value.subscribed_topic_names))


def _target_value(partitions: TopicPartitions) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]
    )


def _target(value: ShareGroupTargetAssignmentMemberValue) -> TopicPartitions:
    return _partitions((entry.topic_id, entry.partitions) for entry in value.topic_partitions)


def _current_value(current: CurrentAssignment) -> ShareGroupCurrentMemberAssignmentValue:
    return ShareGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_epoch,
        _STABLE,
        [OwnedPartitions(topic_id, sorted(numbers)) for topic_id, numbers in current.assigned.items()],
    )


def _current(value: ShareGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    assigned = _partitions((entry.topic_id, entry.partitions) for entry in value.assigned_partitions)
    return CurrentAssignment(value.member_epoch, value.previous_member_epoch, assigned)


def _partitions(entries: Iterable[tuple[UUID, Sequence[int]]]) -> TopicPartitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in entries}


def _states_value(states: KnownStates) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        _infos(states.initializing),
        _infos(states.initialized),
        [TopicInfo(topic_id, name) for topic_id, name in states.deleting.items()],
    )


def _infos(topics: Mapping[UUID, TopicStates]) -> list[TopicPartitionsInfo]:
    return [TopicPartitionsInfo(topic_id, each.name, sorted(each.partitions)) for topic_id, each in topics.items()]


def _states(value: ShareGroupStatePartitionMetadataValue) -> KnownStates:
    return KnownStates(
        initializing=_topics(value.initializing_topics),
        initialized=_topics(value.initialized_topics),
        deleting={entry.topic_id: entry.topic_name for entry in value.deleting_topics},
    )


def _topics(entries: Sequence[TopicPartitionsInfo]) -> Mapping[UUID, TopicStates]:
    return {entry.topic_id: TopicStates(entry.topic_name, frozenset(entry.partitions)) for entry in entries}


RECORDS: tuple[RecordType, ...] = (
    *epoch_records(
        ShareGroupMetadataKey,
        ShareGroupMetadataValue,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMetadataValue,
    ),
    RecordType(MemberChanged, ShareGroupMemberMetadataKey, ShareGroupMemberMetadataValue, _metadata_value, _metadata),
    RecordType(
        TargetChanged,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupTargetAssignmentMemberValue,
        _target_value,
        _target,
    ),
    RecordType(
        CurrentChanged,
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupCurrentMemberAssignmentValue,
        _current_value,
        _current,
    ),
    RecordType(
        StatesChanged,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupStatePartitionMetadataValue,
        _states_value,
        _states,
    ),
)
