"""Streams groups in `__consumer_offsets`: each record as a change of one group, in Kafka's formats (KIP-1071).

Owns: encoding and decoding, and which keys belong to streams groups. Does not own: the effect of a change (`group`),
the format of a topology (`topology_record`).
Each change names its subject; a value of None is a tombstone. Values are written in version 0, the only one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from oncelog.broker.coordinator.group.records import decode_modern, encode_modern
from oncelog.broker.coordinator.group.streams.member import CurrentAssignment, Endpoint, MemberMetadata, MemberState
from oncelog.broker.coordinator.group.streams.tasks import OwnedTasks, TaskEpochs, TaskIds, Tasks
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.broker.coordinator.group.streams.topology_record import from_record, to_record
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.protocol.generated import (
    streams_group_current_member_assignment_key,
    streams_group_current_member_assignment_value,
    streams_group_member_metadata_key,
    streams_group_member_metadata_value,
    streams_group_metadata_key,
    streams_group_metadata_value,
    streams_group_target_assignment_member_key,
    streams_group_target_assignment_member_value,
    streams_group_target_assignment_metadata_key,
    streams_group_target_assignment_metadata_value,
    streams_group_topology_key,
    streams_group_topology_value,
)
from oncelog.protocol.generated.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from oncelog.protocol.generated.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from oncelog.protocol.generated.streams_group_current_member_assignment_value import TaskIds as CurrentTaskIds
from oncelog.protocol.generated.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from oncelog.protocol.generated.streams_group_member_metadata_value import Endpoint as EndpointValue
from oncelog.protocol.generated.streams_group_member_metadata_value import KeyValue, StreamsGroupMemberMetadataValue
from oncelog.protocol.generated.streams_group_metadata_key import StreamsGroupMetadataKey
from oncelog.protocol.generated.streams_group_metadata_value import LastAssignmentConfig, StreamsGroupMetadataValue
from oncelog.protocol.generated.streams_group_target_assignment_member_key import StreamsGroupTargetAssignmentMemberKey
from oncelog.protocol.generated.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from oncelog.protocol.generated.streams_group_target_assignment_member_value import TaskIds as TargetTaskIds
from oncelog.protocol.generated.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from oncelog.protocol.generated.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from oncelog.protocol.generated.streams_group_topology_key import StreamsGroupTopologyKey
from oncelog.protocol.generated.streams_group_topology_value import StreamsGroupTopologyValue
from oncelog.protocol.message import Message

STREAMS_GROUP_TYPE = 17
_MODULES: Mapping[int, tuple[ModuleType, ModuleType]] = {
    STREAMS_GROUP_TYPE: (streams_group_metadata_key, streams_group_metadata_value),
    19: (streams_group_member_metadata_key, streams_group_member_metadata_value),
    20: (streams_group_target_assignment_metadata_key, streams_group_target_assignment_metadata_value),
    21: (streams_group_target_assignment_member_key, streams_group_target_assignment_member_value),
    22: (streams_group_current_member_assignment_key, streams_group_current_member_assignment_value),
    23: (streams_group_topology_key, streams_group_topology_value),
}


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """The group's epoch, and for which topics and settings it holds."""

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int = -1
    """The topology whose topics are all there; −1 if some are not."""
    assignment_configs: Mapping[str, str] = field(default_factory=dict)
    """The settings of the assignor."""


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """The group epoch of the target assignment, and when it was computed."""

    epoch: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GroupChanged:
    group_epoch: GroupEpoch | None


@dataclass(frozen=True, slots=True)
class TopologyChanged:
    topology: Topology | None


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
    tasks: Tasks | None


@dataclass(frozen=True, slots=True)
class CurrentChanged:
    member_id: str
    current: CurrentAssignment | None


Change = GroupChanged | TopologyChanged | TargetEpochChanged | MemberChanged | TargetChanged | CurrentChanged


def encode(group_id: str, change: Change) -> CoordinatorRecord:
    return encode_modern(*_messages(group_id, change))


def _messages(group_id: str, change: Change) -> tuple[Message, Message | None]:
    match change:
        case GroupChanged(epoch):
            return StreamsGroupMetadataKey(group_id), None if epoch is None else _group_value(epoch)
        case TopologyChanged(topology):
            return StreamsGroupTopologyKey(group_id), None if topology is None else to_record(topology)
        case TargetEpochChanged(target):
            return StreamsGroupTargetAssignmentMetadataKey(group_id), None if target is None else _target_epoch_value(
                target
            )
        case MemberChanged(member_id, metadata):
            member_value = None if metadata is None else _metadata_value(metadata)
            return StreamsGroupMemberMetadataKey(group_id, member_id), member_value
        case TargetChanged(member_id, tasks):
            target_value = None if tasks is None else _target_value(tasks)
            return StreamsGroupTargetAssignmentMemberKey(group_id, member_id), target_value
        case CurrentChanged(member_id, current):
            current_value = None if current is None else _current_value(current)
            return StreamsGroupCurrentMemberAssignmentKey(group_id, member_id), current_value


def _group_value(epoch: GroupEpoch) -> StreamsGroupMetadataValue:
    configs = [LastAssignmentConfig(key, value) for key, value in sorted(epoch.assignment_configs.items())]
    return StreamsGroupMetadataValue(epoch.epoch, epoch.metadata_hash, epoch.validated_topology_epoch, configs)


def _target_epoch_value(target: TargetEpoch) -> StreamsGroupTargetAssignmentMetadataValue:
    return StreamsGroupTargetAssignmentMetadataValue(target.epoch, target.timestamp_ms)


def _metadata_value(metadata: MemberMetadata) -> StreamsGroupMemberMetadataValue:
    endpoint = metadata.endpoint
    return StreamsGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        topology_epoch=metadata.topology_epoch,
        process_id=metadata.process_id,
        user_endpoint=None if endpoint is None else EndpointValue(endpoint.host, endpoint.port),
        client_tags=[KeyValue(key, value) for key, value in metadata.client_tags],
    )


def _target_value(tasks: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        _target_tasks(tasks.active), _target_tasks(tasks.standby), _target_tasks(tasks.warmup)
    )


def _target_tasks(tasks: TaskIds) -> list[TargetTaskIds]:
    return [TargetTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def _current_value(current: CurrentAssignment) -> StreamsGroupCurrentMemberAssignmentValue:
    assigned, pending = current.assigned, current.pending_revocation
    return StreamsGroupCurrentMemberAssignmentValue(
        current.member_epoch,
        current.previous_epoch,
        current.state,
        _active_tasks(assigned.active),
        _tasks(assigned.standby),
        _tasks(assigned.warmup),
        _active_tasks(pending.active),
        _tasks(pending.standby),
        _tasks(pending.warmup),
    )


def _active_tasks(tasks: TaskEpochs) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(name, sorted(epochs), [epochs[partition] for partition in sorted(epochs)])
        for name, epochs in sorted(tasks.items())
    ]


def _tasks(tasks: TaskIds) -> list[CurrentTaskIds]:
    return [CurrentTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def decode(record: CoordinatorRecord) -> tuple[str, Change]:
    """Return the group of a record of a streams group, and the change. Raises ProtocolError."""
    key, value = decode_modern(record, _MODULES)
    return key.group_id, _change(key, value)


def _change(key: Message, value: Message | None) -> Change:
    match key:
        case StreamsGroupTopologyKey():
            return TopologyChanged(from_record(value) if isinstance(value, StreamsGroupTopologyValue) else None)
        case StreamsGroupTargetAssignmentMetadataKey():
            return TargetEpochChanged(_target_epoch(value))
        case StreamsGroupMemberMetadataKey(member_id=member_id):
            return MemberChanged(member_id, _metadata(value))
        case StreamsGroupTargetAssignmentMemberKey(member_id=member_id):
            return TargetChanged(member_id, _target(value))
        case StreamsGroupCurrentMemberAssignmentKey(member_id=member_id):
            return CurrentChanged(member_id, _current(value))
        case _:
            return GroupChanged(_group_epoch(value))


def _group_epoch(value: Message | None) -> GroupEpoch | None:
    if not isinstance(value, StreamsGroupMetadataValue):
        return None
    configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    return GroupEpoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


def _target_epoch(value: Message | None) -> TargetEpoch | None:
    if not isinstance(value, StreamsGroupTargetAssignmentMetadataValue):
        return None
    return TargetEpoch(value.assignment_epoch, value.assignment_timestamp)


def _metadata(value: Message | None) -> MemberMetadata | None:
    if not isinstance(value, StreamsGroupMemberMetadataValue):
        return None
    endpoint = value.user_endpoint
    return MemberMetadata(
        value.instance_id,
        value.rack_id,
        value.client_id,
        value.client_host,
        value.rebalance_timeout_ms,
        value.topology_epoch,
        value.process_id,
        None if endpoint is None else Endpoint(endpoint.host, endpoint.port),
        tuple((tag.key, tag.value) for tag in value.client_tags),
    )


def _target(value: Message | None) -> Tasks | None:
    if not isinstance(value, StreamsGroupTargetAssignmentMemberValue):
        return None
    return Tasks(_ids(value.active_tasks), _ids(value.standby_tasks), _ids(value.warmup_tasks))


def _ids(entries: Sequence[TargetTaskIds] | Sequence[CurrentTaskIds]) -> TaskIds:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in entries}


def _current(value: Message | None) -> CurrentAssignment | None:
    if not isinstance(value, StreamsGroupCurrentMemberAssignmentValue):
        return None
    try:
        state = MemberState(value.state)
    except ValueError:
        state = MemberState.UNKNOWN
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        OwnedTasks(
            _epochs(value.active_tasks, value.member_epoch), _ids(value.standby_tasks), _ids(value.warmup_tasks)
        ),
        OwnedTasks(
            _epochs(value.active_tasks_pending_revocation, value.member_epoch),
            _ids(value.standby_tasks_pending_revocation),
            _ids(value.warmup_tasks_pending_revocation),
        ),
    )


def _epochs(entries: Sequence[CurrentTaskIds], member_epoch: int) -> TaskEpochs:
    """Return assignment epochs; records from before KIP-1251 have none, and the member's epoch is the latest
    possible."""
    read: dict[str, Mapping[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs or ()
        known = epochs if len(epochs) == len(entry.partitions) else [member_epoch] * len(entry.partitions)
        read[entry.subtopology_id] = dict(zip(entry.partitions, known, strict=True))
    return read
