"""One member of a consumer group, as values: what it has requested, and what it has been assigned.

Owns: the shapes behind a member's records. Does not own: who is in which group (`group`), how a member moves from one
assignment to the next (`reconciliation`).
Invariant: values are immutable; a changed member is a new value.

KIPs: 848, 1251 (each partition keeps the epoch at which it was assigned).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.engine.errors import LEAVE_EPOCH, STATIC_LEAVE_EPOCH

PartitionEpochs = Mapping[UUID, Mapping[int, int]]
"""The partitions, each with the epoch of the target assignment that gave it to the member."""


class MemberState(IntEnum):
    """The number is that of Kafka's record; one that is unknown here is read as UNKNOWN."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The session timeout and the protocols with which a member of the classic protocol joined."""

    session_timeout_ms: int
    protocols: Sequence[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """The identity and the subscription of a member."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: Sequence[str] = ()
    """Sorted, without duplicates."""
    topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """The partitions that a member owns, and the step of its reconciliation."""

    member_epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return sum(len(partitions) for partitions in self.assigned.values())

    def assignment_epoch(self, topic_id: UUID, partition: int) -> int | None:
        """Return the epoch at which the member was assigned the partition; None if it does not own it."""
        epoch = self.assigned.get(topic_id, {}).get(partition)
        return self.pending_revocation.get(topic_id, {}).get(partition) if epoch is None else epoch

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch


NOTHING_ASSIGNED = CurrentAssignment()
LEFT = CurrentAssignment(LEAVE_EPOCH, LEAVE_EPOCH)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    metadata: MemberMetadata = MemberMetadata()
    current: CurrentAssignment = NOTHING_ASSIGNED

    @property
    def epoch(self) -> int:
        return self.current.member_epoch

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def is_classic(self) -> bool:
        """Whether the member uses JoinGroup, SyncGroup and Heartbeat."""
        return self.metadata.classic is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """The timeout of its own; None if it has that of the group."""
        return None if self.metadata.classic is None else self.metadata.classic.session_timeout_ms

    @property
    def is_revoking(self) -> bool:
        """Whether the member must revoke partitions within its rebalance timeout; the classic protocol has its own
        timeouts."""
        is_here = self.epoch != STATIC_LEAVE_EPOCH and not self.is_classic
        return is_here and self.current.state is MemberState.UNREVOKED_PARTITIONS


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched when it was last resolved."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def without_epochs(partitions: PartitionEpochs) -> TopicPartitions:
    return {topic_id: frozenset(numbers) for topic_id, numbers in partitions.items()}


def with_epoch(partitions: TopicPartitions, epoch: int) -> PartitionEpochs:
    return {topic_id: dict.fromkeys(sorted(numbers), epoch) for topic_id, numbers in partitions.items()}
