"""The records of streams groups in `__consumer_offsets`, in Kafka's formats (KIP-1071).

Owns: the table of their types. Does not own: how the table is used (`engine.kind`), the effect of a change (`group`),
the format of a topology (`topology_record`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.broker.coordinator.group.engine.changes import (
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
)
from oncelog.broker.coordinator.group.engine.kind import RecordType, target_epoch_record
from oncelog.broker.coordinator.group.streams.member import CurrentAssignment, Endpoint, MemberMetadata, MemberState
from oncelog.broker.coordinator.group.streams.tasks import OwnedTasks, TaskEpochs, TaskIds, Tasks
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.broker.coordinator.group.streams.topology_record import from_record, to_record
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


class TopologyChanged(NamedTuple):
    topology: Topology | None


def _group_value(epoch: GroupEpoch) -> StreamsGroupMetadataValue:
    configs = [LastAssignmentConfig(key, value) for key, value in sorted(epoch.assignment_configs.items())]
    return StreamsGroupMetadataValue(epoch.epoch, epoch.metadata_hash, epoch.validated_topology_epoch, configs)


def _group_epoch(value: StreamsGroupMetadataValue) -> GroupEpoch:
    configs = {config.key: config.value for config in value.last_assignment_configs or ()}
    return GroupEpoch(value.epoch, value.metadata_hash, value.validated_topology_epoch, configs)


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


def _metadata(value: StreamsGroupMemberMetadataValue) -> MemberMetadata:
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


def _target_value(tasks: Tasks) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        _target_tasks(tasks.active), _target_tasks(tasks.standby), _target_tasks(tasks.warmup)
    )


def _target_tasks(tasks: TaskIds) -> list[TargetTaskIds]:
    return [TargetTaskIds(name, sorted(partitions)) for name, partitions in sorted(tasks.items())]


def _target(value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
    return Tasks(_ids(value.active_tasks), _ids(value.standby_tasks), _ids(value.warmup_tasks))


def _ids(entries: Sequence[TargetTaskIds] | Sequence[CurrentTaskIds]) -> TaskIds:
    return {entry.subtopology_id: frozenset(entry.partitions) for entry in entries}


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


def _current(value: StreamsGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
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
    read: dict[str, dict[int, int]] = {}
    for entry in entries:
        epochs = entry.assignment_epochs or ()
        known = epochs if len(epochs) == len(entry.partitions) else [member_epoch] * len(entry.partitions)
        read[entry.subtopology_id] = dict(zip(entry.partitions, known, strict=True))
    return read


RECORDS: tuple[RecordType, ...] = (
    RecordType(GroupChanged, StreamsGroupMetadataKey, StreamsGroupMetadataValue, _group_value, _group_epoch),
    target_epoch_record(StreamsGroupTargetAssignmentMetadataKey, StreamsGroupTargetAssignmentMetadataValue),
    RecordType(
        MemberChanged, StreamsGroupMemberMetadataKey, StreamsGroupMemberMetadataValue, _metadata_value, _metadata
    ),
    RecordType(
        TargetChanged,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
        _target_value,
        _target,
    ),
    RecordType(
        CurrentChanged,
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
        _current_value,
        _current,
    ),
    RecordType(TopologyChanged, StreamsGroupTopologyKey, StreamsGroupTopologyValue, to_record, from_record),
)
