"""One decision about a streams group: its changes, applied to a copy step by step, and logged as one batch.

Owns: the steps of a heartbeat in Kafka's order: member, topology, group epoch, target assignment, reconciliation. Does
not own: the checks of requests, and in what order the steps are taken (`coordinator`).
Invariant: `group` is the group as it will be once `records` are replayed; nothing else has changed.

KIPs: 1071, 1101 (metadata hash), 1263 (the target assignment is computed at most once per interval).
"""

from collections.abc import Mapping

from oncelog.broker.coordinator.group.streams.assignor import AssignedMember, SubtopologySize, assign
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredTopology
from oncelog.broker.coordinator.group.streams.member import MemberMetadata, StreamsMember
from oncelog.broker.coordinator.group.streams.reconciliation import Step, reconcile
from oncelog.broker.coordinator.group.streams.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
    TopologyChanged,
    encode,
)
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, Tasks
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.turns.ports import WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError

STANDBY_REPLICAS = "num.standby.replicas"
"""The assignor's only setting, as a group's record names it."""


class StreamsUpdate:
    def __init__(self, base: StreamsGroup, wall_ms: WallMs) -> None:
        self.group = base
        self.records: list[CoordinatorRecord] = []
        self.touched: dict[str, None] = {}
        """Members whose assignment was written, in order."""
        self._is_copy = False
        self._wall_ms = wall_ms

    def change(self, *changes: Change) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        for change in changes:
            self.group.apply(change)
            self.records.append(encode(self.group.group_id, change))
            if isinstance(change, CurrentChanged):
                self.touched[change.member_id] = None

    # --- members and their topology -----------------------------------------------------------------------------------

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set what the member says of itself; True if that has changed."""
        member = self.group.members.get(member_id)
        if member is not None and member.metadata == metadata:
            return False
        self.change(MemberChanged(member_id, metadata))
        return True

    def remove(self, member_id: str) -> None:
        """Remove a member, and begin a new group epoch, in Kafka's order."""
        self.change(CurrentChanged(member_id, None), TargetChanged(member_id, None), MemberChanged(member_id, None))
        known = self.group.group_epoch
        self.change(
            GroupChanged(
                GroupEpoch(
                    known.epoch + 1, known.metadata_hash, known.validated_topology_epoch, known.assignment_configs
                )
            )
        )

    def settle_topology(self, said: Topology | None) -> Topology:
        """Return the group's topology, which the first member sets. Raises INVALID_REQUEST if a member says another
        one."""
        known = self.group.topology
        if said is None:
            if known is None:
                message = "The topology is null and the group topology is also null."
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            return known
        if known is None:
            self.change(TopologyChanged(said))
            return said
        if known.epoch <= said.epoch and known != said:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    # --- epochs -------------------------------------------------------------------------------------------------------

    def settle_epoch(
        self, metadata_hash: int, configured: ConfiguredTopology, configs: Mapping[str, str], *, must_bump: bool
    ) -> None:
        """Begin a new group epoch if the members, the topics or the settings of the assignor have changed."""
        known = self.group.group_epoch
        validated = configured.epoch if configured.is_ready else -1
        now = GroupEpoch(known.epoch, metadata_hash, validated, configs)
        if must_bump or now != known:
            self.change(GroupChanged(GroupEpoch(known.epoch + 1, metadata_hash, validated, configs)))

    def is_behind(self) -> bool:
        """Whether there is no target assignment for the group epoch yet."""
        return self.group.assignment_epoch < self.group.epoch

    def may_assign(self, interval_ms: int) -> bool:
        """Whether the last target assignment is old enough."""
        # In the future if the clock was set back since: do not wait then, as members need tasks.
        made_ms = self.group.target_epoch.timestamp_ms
        return made_ms == 0 or not 0 <= self._wall_ms - made_ms < interval_ms

    def assign(self, configured: ConfiguredTopology) -> None:
        """Compute the target assignment for the group epoch: nothing while the topics do not fit."""
        group = self.group
        targets: Mapping[str, Tasks] = {}
        if configured.is_ready:
            sizes = [
                SubtopologySize(name, each.task_count, each.is_stateful)
                for name, each in configured.subtopologies.items()
            ]
            members = [
                AssignedMember(member_id, member.metadata.process_id, group.target_of(member_id))
                for member_id, member in group.members.items()
            ]
            targets = assign(members, sizes, int(group.group_epoch.assignment_configs.get(STANDBY_REPLICAS, "0")))
        for member_id in list(group.members):
            target = targets.get(member_id, NO_TASKS)
            if target != group.targets.get(member_id):
                self.change(TargetChanged(member_id, target))
        self.change(TargetEpochChanged(TargetEpoch(group.epoch, self._wall_ms)))

    def reconcile(self, member_id: str, target: Tasks, reported: Tasks | None) -> StreamsMember:
        """Bring the member one step closer to its target."""
        group = self.group
        member = group.members[member_id]
        if member.current.is_reconciled_to(group.assignment_epoch):
            return member
        step = Step(member.metadata.process_id, group.assignment_epoch, target, group, reported)
        current = reconcile(member.current, step)
        if current != member.current:
            self.change(CurrentChanged(member_id, current))
        return self.group.members[member_id]


def tombstones(group: StreamsGroup) -> list[CoordinatorRecord]:
    """Return tombstones for everything that the log has of the group, in Kafka's order."""
    end: list[Change] = [
        *(CurrentChanged(member_id, None) for member_id in group.members),
        *(TargetChanged(member_id, None) for member_id in group.targets),
        TargetEpochChanged(None),
        *(MemberChanged(member_id, None) for member_id in group.members),
        GroupChanged(None),
        TopologyChanged(None),
    ]
    return [encode(group.group_id, change) for change in end]
