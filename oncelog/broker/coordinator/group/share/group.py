"""One share group: the state that its records add up to (KIP-932).

Owns: members, epochs, the target assignment, which states of share-partitions exist, and what follows from them;
changed by `apply` alone. Does not own: sessions, what may happen next (`coordinator`).
Invariant: a copy to which the same changes are applied becomes the same group, so a decision can be tried out on a
copy.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Final

from oncelog.broker.coordinator.group.assignors.subscriber import TopicPartitions
from oncelog.broker.coordinator.group.engine.changes import (
    Change,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    TargetEpoch,
)
from oncelog.broker.coordinator.group.engine.group import FIRST_GROUP_EPOCH, apply, apply_to_member
from oncelog.broker.coordinator.group.engine.requests import SHARE_TYPE
from oncelog.broker.coordinator.group.share.member import LEFT, ShareMember
from oncelog.broker.coordinator.group.share.records import StatesChanged
from oncelog.broker.coordinator.group.share.states import NO_STATES, KnownStates


class ShareGroupState(Enum):
    """The value is Kafka's own name, as its tools print it."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    group_type: Final = SHARE_TYPE

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = FIRST_GROUP_EPOCH
        self.target_epoch = TargetEpoch(1, 0)
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, TopicPartitions] = {}
        self.states: KnownStates = NO_STATES
        self.is_settled = False
        """Whether every partition of its topics is known to have a state and a member, as long as the topics stay as
        they are: most heartbeats change nothing, and need not look at each topic and member."""
        self._topics: frozenset[str] | None = None

    def copy(self) -> "ShareGroup":
        other = ShareGroup(self.group_id)
        other.group_epoch, other.target_epoch = self.group_epoch, self.target_epoch
        other.members = dict(self.members)
        other.targets = dict(self.targets)
        other.states = self.states
        return other

    # --- changes ------------------------------------------------------------------------------------------------------

    def apply(self, change: Change) -> None:
        self._topics = None
        self.is_settled = False
        match change:
            case StatesChanged(states):
                self.states = states or NO_STATES
            case CurrentChanged(member_id) | MemberChanged(member_id):
                apply_to_member(self.members, change, ShareMember(member_id), LEFT)
            case _:
                apply(self, change)

    def last_changes(self) -> Sequence[Change]:
        return [StatesChanged(None), GroupChanged(None)]

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self.group_epoch.epoch

    @property
    def assignment_epoch(self) -> int:
        return self.target_epoch.epoch

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
