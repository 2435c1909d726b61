"""One step of a member of a streams group from its current assignment towards its target.

Owns: the three states of a member on the way, and which tasks it may have in each. Does not own: the target
(`assignor`), who else has what (`group`), the timeout of a revocation (`engine.sessions`).
Invariants
- An active task is assigned only while no member has it; a process never has one task in two roles, or twice.
- A member's epoch advances to that of the target only once it has nothing that the target takes from it.

KIP-1071, in the order of Kafka's CurrentAssignmentBuilder: revoke (UNREVOKED_TASKS), then take what is free
(UNRELEASED_TASKS while something is not), then STABLE.
"""

from dataclasses import dataclass
from typing import Protocol

from oncelog.broker.coordinator.group.streams.member import CurrentAssignment, MemberState
from oncelog.broker.coordinator.group.streams.tasks import OwnedTasks, TaskEpochs, TaskIds, Tasks, split
from oncelog.protocol.errors import ErrorCode, KafkaError


class Holders(Protocol):
    """The processes that have a task, assigned or not revoked yet."""

    def has_active(self, subtopology_id: str, partition: int) -> bool: ...

    def is_in_process(self, process_id: str, subtopology_id: str, partition: int) -> bool:
        """Whether the process has the task in any role."""


@dataclass(frozen=True, slots=True)
class Step:
    """The input of one step."""

    process_id: str
    target_epoch: int
    target: Tasks
    holders: Holders
    reported: Tasks | None
    """The tasks that the member reports to have; None if it reports nothing."""


def reconcile(current: CurrentAssignment, step: Step) -> CurrentAssignment:
    """Return the member's next assignment; the same value if there is nothing to do. Raises FENCED_MEMBER_EPOCH for an
    unknown state."""
    match current.state:
        case MemberState.STABLE:
            is_behind = current.member_epoch != step.target_epoch
            return _next(current, step, current.member_epoch) if is_behind else current
        case MemberState.UNREVOKED_TASKS:
            if _still_has(current.pending_revocation, step):
                return current
            return _next(current, step, current.member_epoch + 1)
        case MemberState.UNRELEASED_TASKS:
            return _next(current, step, current.member_epoch)
        case MemberState.UNKNOWN:
            if step.reported is None or not step.reported.is_empty:
                raise KafkaError(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin.",
                )
            return _next(current, step, step.target_epoch)


def _still_has(tasks: OwnedTasks, step: Step) -> bool:
    """Whether the member may still have some of these tasks: only what it reports counts, and while it reports nothing
    it may have everything."""
    return step.reported is None or tasks.has_any(step.reported)


def _next(current: CurrentAssignment, step: Step, member_epoch: int) -> CurrentAssignment:
    holders, process_id = step.holders, step.process_id

    def is_in_process(subtopology_id: str, partition: int) -> bool:
        return holders.is_in_process(process_id, subtopology_id, partition)

    def is_held(subtopology_id: str, partition: int) -> bool:
        return holders.has_active(subtopology_id, partition) or is_in_process(subtopology_id, partition)

    mine, target = current.assigned, step.target
    active = {name: frozenset(epochs) for name, epochs in mine.active.items()}
    kept, lost, taken, waits = split(active, target.active, is_held)
    standby_kept, standby_lost, standby_taken, standby_waits = split(mine.standby, target.standby, is_in_process)
    warmup_kept, warmup_lost, warmup_taken, warmup_waits = split(mine.warmup, target.warmup, is_in_process)
    revoked = OwnedTasks(_epochs(lost, mine.active), standby_lost, warmup_lost)
    if not revoked.is_empty and _still_has(revoked, step):
        # Its epoch stays, as it is the one that the member still uses.
        left = OwnedTasks(_epochs(kept, mine.active), standby_kept, warmup_kept)
        return CurrentAssignment(member_epoch, current.member_epoch, MemberState.UNREVOKED_TASKS, left, revoked)
    has = OwnedTasks(
        _epochs(_union(kept, taken), mine.active, step.target_epoch),
        _union(standby_kept, standby_taken),
        _union(warmup_kept, warmup_taken),
    )
    is_waiting = waits or standby_waits or warmup_waits
    state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
    return CurrentAssignment(step.target_epoch, current.member_epoch, state, has)


def _epochs(tasks: TaskIds, known: TaskEpochs, epoch: int = 0) -> TaskEpochs:
    """Return the epoch of each task; `epoch` is that of new ones."""
    return {
        name: {partition: known.get(name, {}).get(partition, epoch) for partition in sorted(partitions)}
        for name, partitions in tasks.items()
    }


def _union(one: TaskIds, other: TaskIds) -> TaskIds:
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in sorted({*one, *other})}
