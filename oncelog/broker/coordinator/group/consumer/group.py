"""One consumer group: the state that its records add up to.

Owns: members, epochs, the target assignment, resolved regular expressions, and what follows from them; changed by
`apply` alone. Does not own: sessions and other timers (`sessions`), what may happen next (`coordinator`).
Invariants
- A partition has at most one owner: the member that was given it last, until that member's own record gives it up.
- A copy to which the same changes are applied becomes the same group, so a decision can be tried out on a copy.

KIPs: 345 (static members), 848.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.consumer.member import LEFT, ConsumerMember, CurrentAssignment, ResolvedRegex
from oncelog.broker.coordinator.group.consumer.records import RegexChanged
from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    TargetEpoch,
)
from oncelog.broker.coordinator.group.engine.group import FIRST_GROUP_EPOCH, apply, apply_to_member, put
from oncelog.broker.coordinator.group.engine.requests import CONSUMER_TYPE


class ConsumerGroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    group_type: Final = CONSUMER_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_GROUP_EPOCH
        self.target_epoch = TargetEpoch(0, 0)
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self._owners: dict[tuple[UUID, int], str] = {}
        self._topics: frozenset[str] | None = None

    def copy(self) -> "ConsumerGroup":
        other = ConsumerGroup(self.group_id)
        other.group_epoch, other.target_epoch = self.group_epoch, self.target_epoch
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
            case RegexChanged(regex, resolved):
                put(self.regexes, regex, resolved)
            case CurrentChanged(member_id) | MemberChanged(member_id):
                before = self.members.get(member_id)
                after = apply_to_member(self.members, change, ConsumerMember(member_id), LEFT)
                self._index(change, before, after)
            case _:
                apply(self, change)

    def _index(self, change: Change, before: ConsumerMember | None, after: ConsumerMember | None) -> None:
        """Note what the member owns, and under which instance id it is known."""
        if before is not None and (after is None or isinstance(change, CurrentChanged)):
            self._release(before)
        if after is not None:
            if isinstance(change, CurrentChanged):
                self._owners.update(dict.fromkeys(_partitions(after.current), after.member_id))
            if after.instance_id is not None:
                self.static_members[after.instance_id] = after.member_id
        elif before is not None and self.static_members.get(before.instance_id or "") == before.member_id:
            del self.static_members[before.instance_id or ""]

    def _release(self, member: ConsumerMember) -> None:
        for partition in _partitions(member.current):
            # In a compacted log the next owner's record may precede the one that gives the partition up.
            if self._owners.get(partition) == member.member_id:
                del self._owners[partition]

    def last_changes(self) -> Sequence[Change]:
        return [*(RegexChanged(regex, None) for regex in self.regexes), GroupChanged(None)]

    @property
    def epoch(self) -> int:
        return self.group_epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        return self.target_epoch.epoch

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


def _partitions(current: CurrentAssignment) -> Iterable[tuple[UUID, int]]:
    for partitions in (current.assigned, current.pending_revocation):
        for topic_id, epochs in partitions.items():
            for partition in epochs:
                yield topic_id, partition
