"""One member of a streams group, as values: what it says of itself, and what it has been assigned.

Owns: the shapes behind a member's records. Does not own: who is in which group (`group`), how a member moves from one
assignment to the next (`reconciliation`).
Invariant: values are immutable; a changed member is a new value.

KIP-1071. Several members may belong to one process, which is what must not have a task twice: its members share the
directory of the task's state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH
from oncelog.broker.coordinator.group.streams.tasks import NOTHING_OWNED, OwnedTasks


class MemberState(IntEnum):
    """The number is that of Kafka's record; one that is unknown here is read as UNKNOWN."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the process of a member answers interactive queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The identity of a member and of its process."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    endpoint: Endpoint | None = None
    client_tags: Sequence[tuple[str, str]] = ()
    """Sorted by key."""


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The tasks that a member owns, and the step of its reconciliation."""

    member_epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: OwnedTasks = NOTHING_OWNED
    pending_revocation: OwnedTasks = NOTHING_OWNED

    def assigned_in(self, subtopology_id: str, partition: int) -> int | None:
        """Return the epoch in which the member was assigned an active task; None if it does not own it."""
        epoch = self.assigned.assigned_in(subtopology_id, partition)
        return self.pending_revocation.assigned_in(subtopology_id, partition) if epoch is None else epoch

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


NOTHING_ASSIGNED = CurrentAssignment()
LEFT = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)


@dataclass(frozen=True, slots=True)
class StreamsMember:
    session_timeout_ms: ClassVar[None] = None
    is_classic: ClassVar[bool] = False
    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = NOTHING_ASSIGNED

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def is_revoking(self) -> bool:
        """Whether the member must revoke tasks within its rebalance timeout."""
        return self.current.state is MemberState.UNREVOKED_TASKS
