"""The records of consumer groups in `__consumer_offsets`, in Kafka's formats (KIP-848).

Owns: the table of their types. Does not own: how the table is used (`engine.kind`), the effect of a change (`group`).
"""

from collections.abc import Sequence
from typing import NamedTuple
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
from oncelog.broker.coordinator.group.engine.changes import CurrentChanged, MemberChanged, TargetChanged
from oncelog.broker.coordinator.group.engine.kind import RecordType, epoch_records
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


class RegexChanged(NamedTuple):
    regex: str
    resolved: ResolvedRegex | None


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


def _metadata(value: ConsumerGroupMemberMetadataValue) -> MemberMetadata:
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


def _target_value(partitions: TopicPartitions) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        [TopicPartition(topic_id, sorted(numbers)) for topic_id, numbers in partitions.items()]
    )


def _target(value: ConsumerGroupTargetAssignmentMemberValue) -> TopicPartitions:
    return {entry.topic_id: frozenset(entry.partitions) for entry in value.topic_partitions}


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


def _current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
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
    read: dict[UUID, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs or ()
        known = epochs if len(epochs) == len(entry.partitions) else [member_epoch] * len(entry.partitions)
        read[entry.topic_id] = dict(zip(entry.partitions, known, strict=True))
    return read


def _regex_value(resolved: ResolvedRegex) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(sorted(resolved.topics), resolved.version, resolved.timestamp_ms)


def _resolved_regex(value: ConsumerGroupRegularExpressionValue) -> ResolvedRegex:
    return ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)


RECORDS: tuple[RecordType, ...] = (
    *epoch_records(
        ConsumerGroupMetadataKey,
        ConsumerGroupMetadataValue,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
    ),
    RecordType(
        MemberChanged,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMemberMetadataValue,
        _metadata_value,
        _metadata,
    ),
    RecordType(
        TargetChanged,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        _target_value,
        _target,
    ),
    RecordType(
        CurrentChanged,
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        _current_value,
        _current,
    ),
    RecordType(
        RegexChanged,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
        _regex_value,
        _resolved_regex,
    ),
)
