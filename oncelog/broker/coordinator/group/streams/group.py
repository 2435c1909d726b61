"""One streams group: the state that its records add up to.

Owns: members, the topology, epochs, the target assignment, and what follows from them; changed by `apply` alone. Does
not own: sessions and other timers (`life`, `engine.sessions`), what may happen next (`coordinator`).
Invariants
- An active task belongs to at most one process: that of the member that was given it last, until that member's own
  record gives it up.
- A copy to which the same changes are applied becomes the same group, so a decision can be tried out on a copy.

KIP-1071.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final

from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    TargetEpoch,
)
from oncelog.broker.coordinator.group.engine.group import FIRST_GROUP_EPOCH, apply, apply_to_member, put
from oncelog.broker.coordinator.group.engine.requests import STREAMS_TYPE
from oncelog.broker.coordinator.group.streams.member import LEFT, StreamsMember
from oncelog.broker.coordinator.group.streams.records import TopologyChanged
from oncelog.broker.coordinator.group.streams.tasks import NO_TASKS, Tasks, each_task
from oncelog.broker.coordinator.group.streams.topology import Topology


class StreamsGroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class StreamsGroup:
    group_type: Final = STREAMS_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_GROUP_EPOCH
        self.target_epoch = TargetEpoch(1, 0)
        self.topology: Topology | None = None
        self.members: dict[str, StreamsMember] = {}
        self.targets: dict[str, Tasks] = {}
        self._active: dict[tuple[str, int], str] = {}
        """The process of each active task."""
        self._standby: dict[tuple[str, int], frozenset[str]] = {}
        """The processes of each standby task."""
        self._warmup: dict[tuple[str, int], frozenset[str]] = {}

    def copy(self) -> "StreamsGroup":
        other = StreamsGroup(self.group_id)
        other.group_epoch, other.target_epoch, other.topology = self.group_epoch, self.target_epoch, self.topology
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other._active = dict(self._active)
        other._standby = dict(self._standby)
        other._warmup = dict(self._warmup)
        return other

    # --- changes ------------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        match change:
            case TopologyChanged(topology):
                self.topology = topology
            case CurrentChanged(member_id) | MemberChanged(member_id):
                before = self.members.get(member_id)
                if before is not None:
                    self._release(before)
                after = apply_to_member(self.members, change, StreamsMember(member_id), LEFT)
                if after is not None:
                    self._put(after)
            case _:
                apply(self, change)

    def last_changes(self) -> Sequence[Change]:
        return [GroupChanged(None), TopologyChanged(None)]

    def _put(self, member: StreamsMember) -> None:
        process_id = member.metadata.process_id
        for tasks in (member.current.assigned, member.current.pending_revocation):
            self._active.update(dict.fromkeys(each_task(tasks.active), process_id))
            for held, ids in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
                for task in each_task(ids):
                    held[task] = held.get(task, frozenset()) | {process_id}

    def _release(self, member: StreamsMember) -> None:
        process_id = member.metadata.process_id
        for tasks in (member.current.assigned, member.current.pending_revocation):
            for task in each_task(tasks.active):
                # In a compacted log the next owner's record may precede the one that gives the task up.
                if self._active.get(task) == process_id:
                    del self._active[task]
            for held, ids in ((self._standby, tasks.standby), (self._warmup, tasks.warmup)):
                for task in each_task(ids):
                    left = held.get(task, frozenset()) - {process_id}
                    put(held, task, left or None)

    # --- who has what -------------------------------------------------------------------------------------------------

    def has_active(self, subtopology_id: str, partition: int) -> bool:
        return (subtopology_id, partition) in self._active

    def is_in_process(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        task = subtopology_id, partition
        return (
            self._active.get(task) == process_id
            or process_id in self._standby.get(task, ())
            or process_id in self._warmup.get(task, ())
        )

    def target_of(self, member_id: str) -> Tasks:
        return self.targets.get(member_id, NO_TASKS)

    # --- the group as a whole -----------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.group_epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        return self.target_epoch.epoch

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.group_epoch.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        epoch = self.assignment_epoch
        is_stable = all(member.current.is_reconciled_to(epoch) for member in self.members.values())
        return StreamsGroupState.STABLE if is_stable else StreamsGroupState.RECONCILING

    @property
    def readers(self) -> Mapping[str, str]:
        """The subtopology that reads each topic."""
        return {} if self.topology is None else self.topology.readers

    @property
    def topics(self) -> frozenset[str]:
        """The topics that its members read; none if it is empty, so that its offsets expire."""
        return frozenset(self.readers) if self.members else frozenset()

    def may_read(self, topic: str) -> bool:
        return self.topology is not None and topic in self.topology.required_topics
