"""The steps of a heartbeat in a share group.

Owns: the steps in Kafka's order: member, subscription, group epoch, target assignment, reconciliation, states to make.
Does not own: what all types share (`engine.update`), the checks of requests (`coordinator`).
Invariant: only `update` changes.

KIPs: 932, 1101 (metadata hash).
"""

from collections.abc import Collection, Mapping
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions
from oncelog.broker.coordinator.group.engine.changes import MemberChanged
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, metadata_hash, topic_ids
from oncelog.broker.coordinator.group.engine.update import Update
from oncelog.broker.coordinator.group.share.assignor import assign
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.member import MemberMetadata, ShareMember, reconcile
from oncelog.broker.coordinator.group.share.records import StatesChanged
from oncelog.broker.coordinator.group.share.states import TopicStates


class ShareSteps:
    def __init__(self, update: Update[ShareGroup], topics: TopicCatalog) -> None:
        self.update = update
        self._is_bumped = False
        self._is_settled = False
        self._topics = topics

    # --- members ------------------------------------------------------------------------------------------------------

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set the member's metadata; True if its subscription has changed."""
        member = self.update.group.members.get(member_id)
        before = MemberMetadata() if member is None else member.metadata
        # Kafka logs a member only if it differs from an empty one; a joining member names topics, so it does.
        if metadata == before:
            return False
        self.update.change(MemberChanged(member_id, metadata))
        return metadata.topic_names != before.topic_names

    def remove(self, member_id: str) -> None:
        """Remove a member, and let the others continue in a new epoch."""
        self.update.remove(member_id)
        self.update.begin_epoch(metadata_hash(self._topics, self.update.group.topics))

    # --- what the group reads -----------------------------------------------------------------------------------------

    def look_at_topics(self, *, has_new_subscription: bool, is_checked: bool) -> None:
        """Begin a new group epoch if the subscription, its topics or the partitions that can be assigned have
        changed."""
        group = self.update.group
        must_bump = has_new_subscription
        self._is_settled = is_checked and group.is_settled
        if group.target_epoch.epoch >= group.group_epoch.epoch and not self._is_settled:
            must_bump = must_bump or self._lacks_partitions()
        if not must_bump and is_checked:
            return
        now = metadata_hash(self._topics, group.topics)
        if must_bump or now != group.group_epoch.metadata_hash:
            self._is_bumped = True
            self.update.begin_epoch(now)
        self.update.is_checked = True

    def _lacks_partitions(self) -> bool:
        """Whether the target assignment differs from the partitions whose state is made."""
        group = self.update.group
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
        self.update.maybe_assign(interval_ms, self._targets, {})

    def _targets(self) -> Mapping[str, TopicPartitions]:
        subscribers = [self._subscriber(member) for member in self.update.group.members.values()]
        made = {topic_id: each.partitions for topic_id, each in self.update.group.states.initialized.items()}
        return assign(subscribers, made)

    def _subscriber(self, member: ShareMember) -> Subscriber:
        return Subscriber(
            member.member_id, None, self._topics_of(member), self.update.group.target_of(member.member_id)
        )

    def _topics_of(self, member: ShareMember) -> frozenset[UUID]:
        return topic_ids(self._topics, member.metadata.topic_names)

    def reconcile(self, member_id: str) -> ShareMember:
        """Give the member what its target says."""
        group = self.update.group
        member = group.members[member_id]
        current = reconcile(
            member.current,
            group.target_epoch.epoch,
            group.target_of(member_id),
            self._topics_of(member),
            is_forced=self._is_bumped,
        )
        moved: ShareMember = self.update.move(member_id, current)
        return moved

    # --- states of share-partitions -----------------------------------------------------------------------------------

    def forget_topic(self, name: str) -> None:
        """Forget the states of a topic that is gone: the share coordinator deletes them by itself."""
        states = self.update.group.states
        gone = [topic_id for topic_id in states.ids_of(name) if self._topics.by_id(topic_id) is None]
        if gone:
            self.update.change(StatesChanged(states.without(gone)))

    def begin_states(self, waiting: Collection[UUID]) -> Mapping[UUID, TopicStates]:
        """Return what must be made for the topics that the group reads, and note it as being made. `waiting` are topics
        whose states are being made already."""
        missing: dict[UUID, TopicStates] = {}
        if self._is_settled and self.update.group.is_settled:
            return missing
        states = self.update.group.states
        for name in sorted(self.update.group.topics):
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
            self.update.change(StatesChanged(states.begun(missing)))
        elif not self.update.is_copy and not states.initializing:
            # Nothing has changed: so no partition lacks a member either.
            self.update.group.is_settled = self.update.group.assignment_epoch >= self.update.group.epoch
        return missing
