"""The steps of a heartbeat in a streams group.

Owns: the steps in Kafka's order: member, topology, group epoch, target assignment, reconciliation. Does not own: what
all types share (`engine.update`), the checks of requests, and in what order the steps are taken (`coordinator`).
Invariant: only `update` changes.

KIPs: 1071, 1101 (metadata hash).
"""

from collections.abc import Mapping
from dataclasses import replace

from oncelog.broker.coordinator.group.engine.changes import GroupChanged, GroupEpoch, MemberChanged
from oncelog.broker.coordinator.group.engine.update import Update
from oncelog.broker.coordinator.group.streams.assignor import AssignedMember, SubtopologySize, assign
from oncelog.broker.coordinator.group.streams.group import StreamsGroup
from oncelog.broker.coordinator.group.streams.internal_topics import ConfiguredTopology
from oncelog.broker.coordinator.group.streams.member import MemberMetadata, StreamsMember
from oncelog.broker.coordinator.group.streams.reconciliation import Step, reconcile
from oncelog.broker.coordinator.group.streams.records import TopologyChanged
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, Tasks
from oncelog.broker.coordinator.group.streams.topology import Topology
from oncelog.protocol.errors import ErrorCode, KafkaError

STANDBY_REPLICAS = "num.standby.replicas"
"""The assignor's only setting, as a group's record names it."""


class StreamsSteps:
    def __init__(self, update: Update[StreamsGroup]) -> None:
        self.update = update

    # --- members and their topology -----------------------------------------------------------------------------------

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set what the member says of itself; True if that has changed."""
        member = self.update.group.members.get(member_id)
        if member is not None and member.metadata == metadata:
            return False
        self.update.change(MemberChanged(member_id, metadata))
        return True

    def remove(self, member_id: str) -> None:
        """Remove a member, and begin a new group epoch for the same topics."""
        self.update.remove(member_id)
        self.update.begin_epoch(self.update.group.group_epoch.metadata_hash)

    def settle_topology(self, said: Topology | None) -> Topology:
        """Return the group's topology, which the first member sets. Raises INVALID_REQUEST if a member says another
        one."""
        known = self.update.group.topology
        if said is None:
            if known is None:
                message = "The topology is null and the group topology is also null."
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            return known
        if known is None:
            self.update.change(TopologyChanged(said))
            return said
        if known.epoch <= said.epoch and known != said:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    # --- epochs -------------------------------------------------------------------------------------------------------

    def settle_epoch(
        self, metadata_hash: int, configured: ConfiguredTopology, configs: Mapping[str, str], *, must_bump: bool
    ) -> None:
        """Begin a new group epoch if the members, the topics or the settings of the assignor have changed."""
        known = self.update.group.group_epoch
        validated = configured.epoch if configured.is_ready else -1
        now = GroupEpoch(known.epoch, metadata_hash, validated, configs)
        if must_bump or now != known:
            self.update.change(GroupChanged(replace(now, epoch=known.epoch + 1)))

    def maybe_assign(self, interval_ms: int, configured: ConfiguredTopology) -> bool:
        """Compute a target assignment if there is none for the group epoch; False if it is too early."""
        return self.update.maybe_assign(interval_ms, lambda: self._targets(configured), NO_TASKS)

    def _targets(self, configured: ConfiguredTopology) -> Mapping[str, Tasks]:
        """Return what each member is to have: nothing while the topics do not fit."""
        if not configured.is_ready:
            return {}
        group = self.update.group
        sizes = [
            SubtopologySize(name, each.task_count, each.is_stateful) for name, each in configured.subtopologies.items()
        ]
        members = [
            AssignedMember(member_id, member.metadata.process_id, group.target_of(member_id))
            for member_id, member in group.members.items()
        ]
        return assign(members, sizes, int(group.group_epoch.assignment_configs.get(STANDBY_REPLICAS, "0")))

    def reconcile(self, member_id: str, target: Tasks, reported: Tasks | None) -> StreamsMember:
        """Bring the member one step closer to its target."""
        group = self.update.group
        member = group.members[member_id]
        if member.current.is_reconciled_to(group.assignment_epoch):
            return member
        step = Step(member.metadata.process_id, group.assignment_epoch, target, group, reported)
        current = reconcile(member.current, step)
        moved: StreamsMember = self.update.move(member_id, current)
        return moved
