"""One share group: the state that its records add up to (KIP-932).

Owns: members, epochs, the target assignment, which states of share-partitions exist, and what follows from them;
changed by `apply` alone. Does not own: sessions, what may happen next (`coordinator`).
Invariant: a copy to which the same changes are applied becomes the same group, so a decision can be tried out on a
copy.
"""

from dataclasses import replace
from enum import Enum
from typing import TypeVar

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.requests import SHARE_TYPE
from oncelog.broker.coordinator.group.share.member import LEFT, ShareMember
from oncelog.broker.coordinator.group.share.records import (
    Change,
    CurrentChanged,
    GroupChanged,
    GroupEpoch,
    MemberChanged,
    StatesChanged,
    TargetChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from oncelog.broker.coordinator.group.share.states import NO_STATES, KnownStates

T = TypeVar("T")


class ShareGroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.states: KnownStates = NO_STATES
        self.is_settled = False
        """Whether every partition of its topics is known to have a state and a member, as long as the topics stay as
        they are: most heartbeats change nothing, and need not look at each topic and member."""
        self._topics: frozenset[str] | None = None

    def copy(self) -> "ShareGroup":
        other = ShareGroup(self.group_id)
        other.epoch, other.metadata_hash = self.epoch, self.metadata_hash
        other.assignment_epoch, other.assignment_timestamp_ms = self.assignment_epoch, self.assignment_timestamp_ms
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other.states = self.states
        return other

    # --- changes ------------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        self._topics = None
        self.is_settled = False
        match change:
            case GroupChanged(group_epoch):
                epoch = group_epoch or GroupEpoch(1, 0)
                self.epoch, self.metadata_hash = epoch.epoch, epoch.metadata_hash
            case TargetEpochChanged(target_epoch):
                target = target_epoch or TargetEpoch(-1, 0)
                self.assignment_epoch, self.assignment_timestamp_ms = target.epoch, target.timestamp_ms
            case TargetChanged(member_id, partitions):
                _put(self.targets, member_id, partitions)
            case StatesChanged(states):
                self.states = states or NO_STATES
            case CurrentChanged(member_id, current):
                member = self.members.get(member_id)
                if member is not None or current is not None:
                    self.members[member_id] = replace(member or ShareMember(member_id), current=current or LEFT)
            case MemberChanged(member_id, metadata):
                if metadata is None:
                    self.members.pop(member_id, None)
                else:
                    member = self.members.get(member_id) or ShareMember(member_id)
                    self.members[member_id] = replace(member, metadata=metadata)

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def group_type(self) -> str:
        return SHARE_TYPE

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that a member subscribes to."""
        if self._topics is None:
            names = (name for member in self.members.values() for name in member.metadata.topic_names)
            self._topics = frozenset(names)
        return self._topics

    def may_read(self, topic: str) -> bool:
        return topic in self.topics

    def target_of(self, member_id: str) -> TopicPartitions:
        return self.targets.get(member_id, {})


def _put(table: dict[str, T], key: str, value: T | None) -> None:
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
