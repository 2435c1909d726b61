"""Consumer groups in `__consumer_offsets`: each record as a change of one group, in Kafka's formats (KIP-848).

Owns: encoding and decoding, and which keys belong to consumer groups. Does not own: the effect of a change (`group`).
Each change names its subject; a value of None is a tombstone. Values are written in version 0, the only one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.member import (
    ClassicMetadata,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    PartitionEpochs,
    ResolvedRegex,
)
from oncelog.broker.coordinator.group.records import decode_modern, encode_modern
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated import (
    consumer_group_current_member_assignment_key,
    consumer_group_current_member_assignment_value,
    consumer_group_member_metadata_key,
    consumer_group_member_metadata_value,
    consumer_group_metadata_key,
    consumer_group_metadata_value,
    consumer_group_regular_expression_key,
    consumer_group_regular_expression_value,
    consumer_group_target_assignment_member_key,
    consumer_group_target_assignment_member_value,
    consumer_group_target_assignment_metadata_key,
    consumer_group_target_assignment_metadata_value,
)
from oncelog.protocol.generated.consumer_group_current_member_assignment_key import (
    ConsumerGroupCurrentMemberAssignmentKey,
)
from oncelog.protocol.generated.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from oncelog.protocol.generated.consumer_group_current_member_assignment_value import TopicPartitions as OwnedPartitions
from oncelog.protocol.generated.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from oncelog.protocol.generated.consumer_group_member_metadata_value import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
)
from oncelog.protocol.generated.consumer_group_metadata_key import ConsumerGroupMetadataKey
from oncelog.protocol.generated.consumer_group_metadata_value import ConsumerGroupMetadataValue
from oncelog.protocol.generated.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from oncelog.protocol.generated.consumer_group_regular_expression_value import ConsumerGroupRegularExpressionValue
from oncelog.protocol.generated.consumer_group_target_assignment_member_key import (
    ConsumerGroupTargetAssignmentMemberKey,
)
from oncelog.protocol.generated.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
    TopicPartition,
)
from oncelog.protocol.generated.consumer_group_target_assignment_metadata_key import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from oncelog.protocol.generated.consumer_group_target_assignment_metadata_value import (
    ConsumerGroupTargetAssignmentMetadataValue,
)
from oncelog.protocol.message import Message

_MODULES: Mapping[int, tuple[ModuleType, ModuleType]] = {
    3: (consumer_group_metadata_key, consumer_group_metadata_value),
    5: (consumer_group_member_metadata_key, consumer_group_member_metadata_value),
    6: (consumer_group_target_assignment_metadata_key, consumer_group_target_assignment_metadata_value),
    7: (consumer_group_target_assignment_member_key, consumer_group_target_assignment_member_value),
    8: (consumer_group_current_member_assignment_key, consumer_group_current_member_assignment_value),
    16: (consumer_group_regular_expression_key, consumer_group_regular_expression_value),
}
CONSUMER_GROUP_TYPES = frozenset(_MODULES)
CONSUMER_GROUP_TYPE = 3


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
class RegexChanged:
    regex: str
    resolved: ResolvedRegex | None


Change = GroupChanged | TargetEpochChanged | MemberChanged | TargetChanged | CurrentChanged | RegexChanged


def encode(group_id: str, change: Change) -> CoordinatorRecord:
    return encode_modern(*_messages(group_id, change))


def _messages(group_id: str, change: Change) -> tuple[Message, Message | None]:
    match change:
        case GroupChanged(epoch):
            group_value = None if epoch is None else ConsumerGroupMetadataValue(epoch.epoch, epoch.metadata_hash)
            return ConsumerGroupMetadataKey(group_id), group_value
        case TargetEpochChanged(epoch):
            return ConsumerGroupTargetAssignmentMetadataKey(group_id), None if epoch is None else _target_epoch_value(
                epoch
            )
        case MemberChanged(member_id, metadata):
            value = None if metadata is None else _metadata_value(metadata)
            return ConsumerGroupMemberMetadataKey(group_id, member_id), value
        case TargetChanged(member_id, partitions):
            target_value = None if partitions is None else _target_value(partitions)
            return ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), target_value
        case CurrentChanged(member_id, current):
            current_value = None if current is None else _current_value(current)
            return ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), current_value
        case RegexChanged(regex, resolved):
            regex_value = None if resolved is None else _regex_value(resolved)
            return ConsumerGroupRegularExpressionKey(group_id, regex), regex_value


def _target_epoch_value(target: TargetEpoch) -> ConsumerGroupTargetAssignmentMetadataValue:
    return ConsumerGroupTargetAssignmentMetadataValue(target.epoch, target.timestamp_ms)


def _regex_value(resolved: ResolvedRegex) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)


def _metadata_value(metadata: MemberMetadata) -> ConsumerGroupMemberMetadataValue:
    classic = metadata.classic
    return ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=metadata.topic_names,
        subscribed_topic_regex=metadata.topic_regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic_member_metadata=None
        if classic is None
        else ClassicMemberMetadata(
            classic.session_timeout_ms, [ClassicProtocol(name, data) for name, data in classic.protocols]
        ),
    )


def _target_value(partitions: TopicPartitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]
    )


def _current_value(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_epoch,
        current.state,
        _to_owned_partitions(current.assigned),
        _to_owned_partitions(current.pending_revocation),
    )


def _to_owned_partitions(partitions: PartitionEpochs) -> list[OwnedPartitions]:
    return [OwnedPartitions(topic_id, list(epochs), list(epochs.values())) for topic_id, epochs in partitions.items()]


def decode(record: CoordinatorRecord) -> tuple[str, Change]:
    """Return the group of a record, and the change; its key is one of CONSUMER_GROUP_TYPES. Raises ProtocolError."""
    key, value = decode_modern(record, _MODULES)
    return key.group_id, _change(key, value)


def _change(key: Message, value: Message | None) -> Change:
    match key:
        case ConsumerGroupTargetAssignmentMetadataKey():
            return TargetEpochChanged(_target_epoch(value))
        case ConsumerGroupMemberMetadataKey(member_id=member_id):
            return MemberChanged(member_id, _metadata(value))
        case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
            return TargetChanged(member_id, _target(value))
        case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
            return CurrentChanged(member_id, _current(value))
        case ConsumerGroupRegularExpressionKey(regular_expression=regex):
            return RegexChanged(regex, _resolved_regex(value))
        case _:
            return GroupChanged(_group_epoch(value))


def _group_epoch(value: Message | None) -> GroupEpoch | None:
    return GroupEpoch(value.epoch, value.metadata_hash) if isinstance(value, ConsumerGroupMetadataValue) else None


def _target_epoch(value: Message | None) -> TargetEpoch | None:
    if not isinstance(value, ConsumerGroupTargetAssignmentMetadataValue):
        return None
    return TargetEpoch(value.assignment_epoch, value.assignment_timestamp)


def _metadata(value: Message | None) -> MemberMetadata | None:
    if not isinstance(value, ConsumerGroupMemberMetadataValue):
        return None
    classic = value.classic_member_metadata
    # Without its tag it is decoded as an empty structure: in records from before such members existed.
    is_classic = classic is not None and bool(classic.supported_protocols)
    return MemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        tuple(value.subscribed_topic_names),
        value.subscribed_topic_regex,
        value.rebalance_timeout_ms,
        value.server_assignor,
        ClassicMetadata(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        )
        if classic is not None and is_classic
        else None,
    )


def _target(value: Message | None) -> TopicPartitions | None:
    if not isinstance(value, ConsumerGroupTargetAssignmentMemberValue):
        return None
    return {entry.topic_id: frozenset(entry.partitions) for entry in value.topic_partitions}


def _current(value: Message | None) -> CurrentAssignment | None:
    if not isinstance(value, ConsumerGroupCurrentMemberAssignmentValue):
        return None
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(entries: Sequence[OwnedPartitions], member_epoch: int) -> PartitionEpochs:
    """Return assignment epochs; records from before KIP-1251 have none, and the member's epoch is the latest
    possible."""
    read: dict[UUID, Mapping[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs or ()
        known = epochs if len(epochs) == len(entry.partitions) else [member_epoch] * len(entry.partitions)
        read[entry.topic_id] = dict(zip(entry.partitions, known, strict=True))
    return read


def _resolved_regex(value: Message | None) -> ResolvedRegex | None:
    if not isinstance(value, ConsumerGroupRegularExpressionValue):
        return None
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
