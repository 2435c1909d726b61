"""One consumer group: the state that its records add up to.

Owns: members, epochs, the target assignment, resolved regular expressions, and what follows from them; changed by
`apply` alone. Does not own: sessions and other timers (`sessions`), what may happen next (`coordinator`).
Invariants
- A partition has at most one owner: the member that was given it last, until that member's own record gives it up.
- A copy to which the same changes are applied becomes the same group, so a decision can be tried out on a copy.

KIPs: 345 (static members), 848.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import TypeVar
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.member import LEFT, ConsumerMember, CurrentAssignment, ResolvedRegex
from oncelog.broker.coordinator.group.consumer.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    RegexChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.requests import CONSUMER_TYPE

T = TypeVar("T")


class ConsumerGroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._owners: dict[tuple[UUID, int], str] = {}
        self._topics: frozenset[str] | None = None

    def copy(self) -> "ConsumerGroup":
        other = ConsumerGroup(self.group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch, other.assignment_timestamp_ms = self.assignment_epoch, self.assignment_timestamp_ms
        other.members = dict(self.members)
        other.static_members = dict(self.static_members)
        other.targets = dict(self.targets)
        other.regexes = dict(self.regexes)
        other._owners = dict(self._owners)
        return other

    # --- changes ------------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        self._topics = None
        match change:
            case GroupChanged(group_epoch):
                epoch = group_epoch or GroupEpoch(1, 0)
                self.epoch, self.metadata_hash = epoch.epoch, epoch.metadata_hash
            case TargetEpochChanged(target_epoch):
                target = target_epoch or TargetEpoch(-1, 0)
                self.assignment_epoch, self.assignment_timestamp_ms = target.epoch, target.timestamp_ms
            case TargetChanged(member_id, partitions):
                _put(self.targets, member_id, partitions)
            case RegexChanged(regex, resolved):
                _put(self.regexes, regex, resolved)
            case CurrentChanged(member_id, current):
                self._apply_current(member_id, current)
            case MemberChanged(member_id, metadata):
                if metadata is None:
                    self._remove(member_id)
                    return
                member = self.members.get(member_id) or ConsumerMember(member_id)
                self._put(replace(member, metadata=metadata))

    def _apply_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        member = self.members.get(member_id)
        if member is None:
            if current is None:
                return
            member = ConsumerMember(member_id)
        self._release(member)
        member = replace(member, current=current or LEFT)
        for partition in _partitions(member.current):
            self._owners[partition] = member_id
        self._put(member)

    def _put(self, member: ConsumerMember) -> None:
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._release(member)
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member_id:
            del self.static_members[member.instance_id]

    def _release(self, member: ConsumerMember) -> None:
        for partition in _partitions(member.current):
            # In a compacted log the next owner's record may precede the one that gives the partition up.
            if self._owners.get(partition) == member.member_id:
                del self._owners[partition]

    @property
    def group_type(self) -> str:
        return CONSUMER_TYPE

    # --- members ------------------------------------------------------------------------------------------------------

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = self.static_members.get(instance_id) if instance_id is not None else None
        return None if member_id is None else self.members[member_id]

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        return (topic_id, partition) in self._owners

    def target_of(self, member_id: str) -> TopicPartitions:
        return self.targets.get(member_id, {})

    @property
    def classic_members(self) -> list[ConsumerMember]:
        return [member for member in self.members.values() if member.is_classic]

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.assignment_epoch
        is_stable = all(member.current.is_reconciled_to(epoch) for member in self.members.values())
        return ConsumerGroupState.STABLE if is_stable else ConsumerGroupState.RECONCILING

    # --- subscriptions ------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a member subscribes to, by name or by a resolved regular expression."""
        if self._topics is None:
            names = {name for member in self.members.values() for name in member.metadata.topic_names}
            self._topics = frozenset(names.union(*(resolved.topics for resolved in self.regexes.values())))
        return self._topics

    def may_read(self, topic: str) -> bool:
        return topic in self.topics or bool(self.regexes)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        resolved = self.regexes.get(member.metadata.topic_regex or "")
        names = frozenset(member.metadata.topic_names)
        return names if resolved is None else names | resolved.topics

    @property
    def subscribed_regexes(self) -> Counter[str]:
        """The regular expressions of the members, and how many have each."""
        return Counter(member.metadata.topic_regex for member in self.members.values() if member.metadata.topic_regex)

    def preferred_assignor(self, known: Iterable[str]) -> str | None:
        """The assignor that most members prefer, among known ones; ties go to the one listed first."""
        votes = Counter(member.metadata.server_assignor for member in self.members.values())
        wanted = [name for name in known if votes[name]]
        return max(wanted, key=lambda name: votes[name], default=None)


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value


def _partitions(current: CurrentAssignment) -> Iterable[tuple[UUID, int]]:
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, epochs in partitions.items():
            for partition in epochs:
                yield topic_id, partition
