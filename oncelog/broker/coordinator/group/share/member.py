"""One member of a share group, as values: what it has requested, and what it has been assigned.

Owns: the shapes behind a member's records, and the one step of its reconciliation. Does not own: who is in which group
(`group`).
Invariant: values are immutable; a changed member is a new value.

Partitions are shared, so that nothing must be revoked first: a member has what its target says at once (KIP-932).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import ClassVar
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The identity and the subscription of a member."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: Sequence[str] = ()
    """Sorted, without duplicates."""


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The partitions that a member reads, and the epoch of the target assignment that gave them to it."""

    member_epoch: int = 0
    previous_epoch: int = -1
    assigned: TopicPartitions = field(default_factory=dict)


JOINED = CurrentAssignment()
LEFT = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)


@dataclass(frozen=True, slots=True)
class ShareMember:
    session_timeout_ms: ClassVar[None] = None
    is_revoking: ClassVar[bool] = False
    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = JOINED

    @property
    def epoch(self) -> int:
        return self.current.member_epoch


def reconcile(
    current: CurrentAssignment,
    target_epoch: int,
    target: TopicPartitions,
    subscribed: Collection[UUID],
    *,
    is_forced: bool,
) -> CurrentAssignment:
    """Return the assignment of a member in a target epoch: what the target says of the topics that it subscribes to.
    The epoch may be the current one if `is_forced`, after a new subscription."""
    if target_epoch == current.member_epoch and not is_forced:
        return current
    assigned = {topic_id: numbers for topic_id, numbers in target.items() if topic_id in subscribed}
    if target_epoch == current.member_epoch:
        return CurrentAssignment(current.member_epoch, current.previous_epoch, assigned)
    return CurrentAssignment(target_epoch, current.member_epoch, assigned)
