"""One decision about a consumer group: its changes, applied to a copy step by step, and logged as one batch.

Owns: the steps that requests of both protocols share, in Kafka's order: member, subscription, group epoch, target
assignment, reconciliation. Does not own: the checks of requests (`coordinator`, `classic_members`).
Invariant: `group` is the group as it will be once `records` are replayed; nothing else has changed.

KIPs: 345, 848, 1101 (metadata hash), 1263 (the target assignment is computed at most once per interval).
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber
from oncelog.broker.coordinator.group.assignors.table import ASSIGNORS
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import (
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)
from oncelog.broker.coordinator.group.consumer.ports import (
    ConsumerGroupSettings,
    TopicCatalog,
    metadata_hash,
    topic_ids,
)
from oncelog.broker.coordinator.group.consumer.reconciliation import Step, reconcile
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
    encode,
)
from oncelog.broker.coordinator.group.consumer.regex import NOTHING_MATCHED, LongMatch, Matches, matching_names
from oncelog.broker.coordinator.group.requests import TopicFilter
from oncelog.broker.coordinator.runtime import CoordinatorRecord
from oncelog.broker.turns.ports import WallMs

_REGEX_VERSION = 0
"""Kafka stores the version of its metadata here; 0 makes it check again."""


class GroupUpdate:
    def __init__(
        self, base: ConsumerGroup, topics: TopicCatalog, settings: ConsumerGroupSettings, wall_ms: WallMs
    ) -> None:
        self.group = base
        self.records: list[CoordinatorRecord] = []
        self.touched: dict[str, None] = {}
        """Members whose assignment was written, in order."""
        self.is_checked = False
        """True if its topics have been checked."""
        self.may_describe: TopicFilter | None = None
        """Whether the member in question may know of a topic: an expression finds no others."""
        self.matches: Matches | None = None
        """The matches of expressions; None where the caller cannot wait for many: they stay as they are until the next
        heartbeat."""
        self._is_copy = False
        self._reads_otherwise = False
        self._is_behind = False
        self._topics = topics
        self._settings = settings
        self._wall_ms = wall_ms

    def change(self, *changes: Change) -> None:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        for change in changes:
            self.group.apply(change)
            self.records.append(encode(self.group.group_id, change))
            if isinstance(change, CurrentChanged):
                self.touched[change.member_id] = None

    # --- members ------------------------------------------------------------------------------------------------------

    def replace(self, previous: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give the target of a static member to the id under which it returns."""
        target = self.group.target_of(previous.member_id)
        current = CurrentAssignment(
            0, 0, previous.current.state, previous.current.assigned, previous.current.pending_revocation
        )
        self.remove(previous.member_id)
        self.change(
            MemberChanged(member_id, previous.metadata),
            TargetChanged(member_id, target),
            CurrentChanged(member_id, current),
        )
        return self.group.members[member_id]

    def remove(self, member_id: str) -> None:
        """Remove a member, in Kafka's order: the current assignment, the target, the member itself."""
        self.change(CurrentChanged(member_id, None), TargetChanged(member_id, None), MemberChanged(member_id, None))

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set the member's metadata; True if its subscription has changed."""
        member = self.group.members.get(member_id)
        before = None if member is None else member.metadata
        if metadata == before:
            return False
        self.change(MemberChanged(member_id, metadata))
        before = before or MemberMetadata()
        has_new_names = metadata.topic_names != before.topic_names
        has_new_regex = (metadata.topic_regex or "") != (before.topic_regex or "")
        finds_something = has_new_regex and self._finds_something(metadata.topic_regex or "")
        self._reads_otherwise = has_new_names or finds_something
        return has_new_names or has_new_regex

    def _finds_something(self, regex: str) -> bool:
        """Resolve all expressions. An expression that is new to the group and matches nothing changes nothing."""
        is_known = not regex or regex in self.group.regexes
        self.settle_regexes()
        return is_known or bool(self.group.regexes[regex].topics)

    # --- what the group reads -----------------------------------------------------------------------------------------

    def settle_regexes(self) -> None:
        """Resolve new expressions, drop unused ones. Raises INVALID_REGULAR_EXPRESSION."""
        used = self.group.subscribed_regexes
        for regex in [regex for regex in self.group.regexes if regex not in used]:
            self.change(RegexChanged(regex, None))
        self._resolve([regex for regex in used if regex not in self.group.regexes])

    def _resolve(self, regexes: Collection[str]) -> bool:
        """Match against the current topics; return True if a result has changed. Raises LongMatch."""
        if not regexes:
            return False
        has_changed = False
        names = [topic.name for topic in self._topics.all()]
        try:
            matched = matching_names(regexes, names, self.matches or NOTHING_MATCHED)
        except LongMatch:
            if self.matches is not None:
                raise
            self._is_behind = True
            return False
        for regex, topics in matched.items():
            if self.may_describe is not None:
                topics = frozenset(filter(self.may_describe, topics))
            known = self.group.regexes.get(regex)
            if known is None or known.topics != topics:
                self.change(RegexChanged(regex, ResolvedRegex(topics, _REGEX_VERSION, self._wall_ms)))
                has_changed = True
        return has_changed

    def look_at_topics(self) -> None:
        """Begin a new group epoch if the group's subscription or its topics have changed."""
        must_bump = self._resolve(list(self.group.regexes)) or self._reads_otherwise
        now = metadata_hash(self._topics, self.group.topics)
        if must_bump or now != self.group.metadata_hash:
            self.change(GroupChanged(GroupEpoch(self.group.epoch + 1, now)))
        self.is_checked = not self._is_behind

    # --- who reads what -----------------------------------------------------------------------------------------------

    def maybe_assign(self) -> None:
        """Compute a target assignment for the group epoch, unless the last one is too recent."""
        group = self.group
        if group.assignment_epoch >= group.epoch or not self._may_assign():
            return
        known = [name for name in self._settings.assignors if name in ASSIGNORS]
        name = group.preferred_assignor(known) or known[0]
        subscribers = [self._subscriber(member) for member in group.members.values()]
        targets = ASSIGNORS[name](subscribers, self._partition_counts(subscribers))
        for member_id in list(group.members):
            target = targets.get(member_id, {})
            if target != group.targets.get(member_id):
                self.change(TargetChanged(member_id, target))
        self.change(TargetEpochChanged(TargetEpoch(group.epoch, self._wall_ms)))

    def _may_assign(self) -> bool:
        # In the future if the clock was set back since: do not wait then, as members need partitions.
        made_ms = self.group.assignment_timestamp_ms
        interval_ms = self._settings.assignment_interval_ms(self.group.group_id)
        return made_ms == 0 or not 0 <= self._wall_ms - made_ms < interval_ms

    def _subscriber(self, member: ConsumerMember) -> Subscriber:
        topics = topic_ids(self._topics, self.group.topics_of(member))
        return Subscriber(member.member_id, member.instance_id, topics, self.group.target_of(member.member_id))

    def _partition_counts(self, subscribers: Sequence[Subscriber]) -> Mapping[UUID, int]:
        wanted = frozenset().union(*(subscriber.topics for subscriber in subscribers))
        found = map(self._topics.by_id, wanted)
        return {topic.topic_id: topic.partition_count for topic in found if topic is not None}

    def reconcile(
        self, member_id: str, reported: Mapping[UUID, Collection[int]] | None, *, has_new_subscription: bool
    ) -> ConsumerMember:
        """Bring the member one step closer to its target."""
        group = self.group
        member = group.members[member_id]
        if not has_new_subscription and member.current.is_reconciled_to(group.assignment_epoch):
            return member
        current = reconcile(
            member.current,
            Step(
                group.assignment_epoch,
                group.target_of(member_id),
                topic_ids(self._topics, group.topics_of(member)),
                group.is_owned,
                reported,
                has_new_subscription,
            ),
        )
        if current != member.current:
            self.change(CurrentChanged(member_id, current))
        return self.group.members[member_id]

    # --- the group as a whole -----------------------------------------------------------------------------------------

    def dissolve(self) -> None:
        self.change(*_end_of(self.group))


def tombstones(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return tombstones for everything that the log has of the group."""
    return [encode(group.group_id, change) for change in _end_of(group)]


def _end_of(group: ConsumerGroup) -> list[Change]:
    """Return the changes that end a group, in Kafka's order."""
    return [
        *(CurrentChanged(member_id, None) for member_id in group.members),
        *(TargetChanged(member_id, None) for member_id in group.targets),
        TargetEpochChanged(None),
        *(MemberChanged(member_id, None) for member_id in group.members),
        *(RegexChanged(regex, None) for regex in group.regexes),
        GroupChanged(None),
    ]
