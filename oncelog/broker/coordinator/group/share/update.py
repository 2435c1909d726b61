"""One decision about a share group: its changes, applied to a copy step by step, and logged as one batch.

Owns: the steps of a heartbeat in Kafka's order: member, subscription, group epoch, target assignment, reconciliation,
states to make. Does not own: the checks of requests (`coordinator`).
Invariant: `group` is the group as it will be once `records` are replayed; nothing else has changed.

KIPs: 932, 1101 (metadata hash), 1263 (the target assignment is computed at most once per interval).
"""

from collections.abc import Collection, Mapping
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber
from oncelog.broker.coordinator.group.consumer.ports import TopicCatalog, metadata_hash, topic_ids
from oncelog.broker.coordinator.group.share.assignor import assign
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import MemberMetadata, ShareMember, reconcile
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
    encode,
)
from oncelog.broker.coordinator.group.share.states import TopicStates
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.turns.ports import WallMs


class ShareGroupUpdate:
    def __init__(self, base: ShareGroup, topics: TopicCatalog, wall_ms: WallMs) -> None:
        self.group = base
        self.records: list[CoordinatorRecord] = []
        self.is_checked = False
        """True if its topics have been checked."""
        self._is_copy = False
        self._is_bumped = False
        self._is_settled = False
        self._topics = topics
        self._wall_ms = wall_ms

    def change(self, *changes: Change) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        for change in changes:
            self.group.apply(change)
            self.records.append(encode(self.group.group_id, change))

    # --- members ------------------------------------------------------------------------------------------------------

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set the member's metadata; True if its subscription has changed."""
        member = self.group.members.get(member_id)
        before = MemberMetadata() if member is None else member.metadata
        # Kafka logs a member only if it differs from an empty one; a joining member names topics, so it does.
        if metadata == before:
            return False
        self.change(MemberChanged(member_id, metadata))
        return metadata.topic_names != before.topic_names

    def remove(self, member_id: str) -> None:
        """Remove a member, in Kafka's order, and let the others continue in a new epoch."""
        self.change(CurrentChanged(member_id, None), TargetChanged(member_id, None), MemberChanged(member_id, None))
        known = metadata_hash(self._topics, self.group.topics)
        self.change(GroupChanged(GroupEpoch(self.group.epoch + 1, known)))

    # --- what the group reads -----------------------------------------------------------------------------------------

    def look_at_topics(self, *, has_new_subscription: bool, is_checked: bool) -> None:
        """Begin a new group epoch if the subscription, its topics or the partitions that can be assigned have
        changed."""
        group = self.group
        must_bump = has_new_subscription
        self._is_settled = is_checked and group.is_settled
        if group.assignment_epoch >= group.epoch and not self._is_settled:
            must_bump = must_bump or self._lacks_partitions()
        if not must_bump and is_checked:
            return
        now = metadata_hash(self._topics, group.topics)
        if must_bump or now != group.metadata_hash:
            self._is_bumped = True
            self.change(GroupChanged(GroupEpoch(group.epoch + 1, now)))
        self.is_checked = True

    def _lacks_partitions(self) -> bool:
        """Whether the target assignment differs from the partitions whose state is made."""
        group = self.group
        for topic_id, made in group.states.initialized.items():
            topic = self._topics.by_id(topic_id)
            # Not by the name in the record: a topic of this name may have been made again.
            if topic is None or topic.name not in group.topics:
                continue
            assigned = frozenset().union(*(target.get(topic_id, frozenset()) for target in group.targets.values()))
            if assigned != made.partitions:
                return True
        return False

    # --- who reads what -----------------------------------------------------------------------------------------------

    def maybe_assign(self, interval_ms: int) -> None:
        """Compute a target assignment for the group epoch, unless the last one is too recent."""
        group = self.group
        if group.assignment_epoch >= group.epoch or not self._may_assign(interval_ms):
            return
        subscribers = [self._subscriber(member) for member in group.members.values()]
        made = {topic_id: each.partitions for topic_id, each in group.states.initialized.items()}
        targets = assign(subscribers, made)
        for member_id in list(group.members):
            target = targets.get(member_id, {})
            if target != group.targets.get(member_id):
                self.change(TargetChanged(member_id, target))
        self.change(TargetEpochChanged(TargetEpoch(self.group.epoch, self._wall_ms)))

    def _may_assign(self, interval_ms: int) -> bool:
        # In the future if the clock was set back since: do not wait then, as members need partitions.
        made_ms = self.group.assignment_timestamp_ms
        return made_ms == 0 or not 0 <= self._wall_ms - made_ms < interval_ms

    def _subscriber(self, member: ShareMember) -> Subscriber:
        return Subscriber(member.member_id, None, self._topics_of(member), self.group.target_of(member.member_id))

    def _topics_of(self, member: ShareMember) -> frozenset[UUID]:
        return topic_ids(self._topics, member.metadata.topic_names)

    def reconcile(self, member_id: str) -> ShareMember:
        """Give the member what its target says."""
        group = self.group
        member = group.members[member_id]
        current = reconcile(
            member.current,
            group.assignment_epoch,
            group.target_of(member_id),
            self._topics_of(member),
            is_forced=self._is_bumped,
        )
        if current != member.current:
            self.change(CurrentChanged(member_id, current))
        return self.group.members[member_id]

    # --- states of share-partitions -----------------------------------------------------------------------------------

    def forget_topic(self, name: str) -> None:
        """Forget the states of a topic that is gone: the share coordinator deletes them by itself."""
        states = self.group.states
        gone = [topic_id for topic_id in states.ids_of(name) if self._topics.by_id(topic_id) is None]
        if gone:
            self.change(StatesChanged(states.without(gone)))

    def begin_states(self, waiting: Collection[UUID]) -> Mapping[UUID, TopicStates]:
        """Return what must be made for the topics that the group reads, and note it as being made. `waiting` are topics
        whose states are being made already."""
        missing: dict[UUID, TopicStates] = {}
        if self._is_settled and self.group.is_settled:
            return missing
        states = self.group.states
        for name in sorted(self.group.topics):
            topic = self._topics.get(name)
            if topic is None:
                continue
            made = states.initialized.get(topic.topic_id)
            known = frozenset() if made is None else made.partitions
            if topic.topic_id in waiting and topic.topic_id in states.initializing:
                known |= states.initializing[topic.topic_id].partitions
            if len(known) < topic.partition_count:
                lacking = frozenset(range(topic.partition_count)) - known
                missing[topic.topic_id] = TopicStates(name, lacking)
        if missing:
            self.change(StatesChanged(states.begun(missing)))
        elif not self._is_copy and not states.initializing:
            # Nothing has changed: so no partition lacks a member either.
            self.group.is_settled = self.group.assignment_epoch >= self.group.epoch
        return missing


def tombstones(group: ShareGroup) -> list[CoordinatorRecord]:
    """Return tombstones for everything that the log has of the group, in Kafka's order."""
    ended: list[Change] = [
        *(CurrentChanged(member_id, None) for member_id in group.members),
        *(TargetChanged(member_id, None) for member_id in group.targets),
        TargetEpochChanged(None),
        *(MemberChanged(member_id, None) for member_id in group.members),
        StatesChanged(None),
        GroupChanged(None),
    ]
    return [encode(group.group_id, change) for change in ended]
