"""The steps of a decision about a consumer group, which requests of both protocols share.

Owns: the steps in Kafka's order: member, subscription, group epoch, target assignment, reconciliation. Does not own:
what all types share (`engine.update`), the checks of requests (`coordinator`, `classic_members`).
Invariant: only `update` changes.

KIPs: 345, 848, 1101 (metadata hash).
"""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from oncelog.broker.config.group_settings import ConsumerGroupConfig
from oncelog.broker.coordinator.group.assignors.subscriber import Subscriber, TopicPartitions
from oncelog.broker.coordinator.group.assignors.table import ASSIGNORS
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.member import (
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    ResolvedRegex,
)
from oncelog.broker.coordinator.group.consumer.reconciliation import Step, reconcile
from oncelog.broker.coordinator.group.consumer.records import RegexChanged
from oncelog.broker.coordinator.group.consumer.regex import NOTHING_MATCHED, LongMatch, Matches, matching_names
from oncelog.broker.coordinator.group.engine.changes import CurrentChanged, MemberChanged, TargetChanged
from oncelog.broker.coordinator.group.engine.requests import TopicFilter
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, metadata_hash, topic_ids
from oncelog.broker.coordinator.group.engine.update import Update

_REGEX_VERSION = 0
"""Kafka stores the version of its metadata here; 0 makes it check again."""


class ConsumerSteps:
    def __init__(self, update: Update[ConsumerGroup], topics: TopicCatalog, config: ConsumerGroupConfig) -> None:
        self.update = update
        self.may_describe: TopicFilter | None = None
        """Whether the member in question may know of a topic: an expression finds no others."""
        self.matches: Matches | None = None
        """The matches of expressions; None where the caller cannot wait for many: they stay as they are until the next
        heartbeat."""
        self._change = update.change
        self._reads_otherwise = False
        self._is_behind = False
        self._topics = topics
        self._config = config

    # --- members ------------------------------------------------------------------------------------------------------

    def replace(self, previous: ConsumerMember, member_id: str) -> ConsumerMember:
        """Give the target of a static member to the id under which it returns."""
        target = self.update.group.target_of(previous.member_id)
        current = CurrentAssignment(
            0, 0, previous.current.state, previous.current.assigned, previous.current.pending_revocation
        )
        self.update.remove(previous.member_id)
        self._change(
            MemberChanged(member_id, previous.metadata),
            TargetChanged(member_id, target),
            CurrentChanged(member_id, current),
        )
        return self.update.group.members[member_id]

    def describe_member(self, member_id: str, metadata: MemberMetadata) -> bool:
        """Set the member's metadata; True if its subscription has changed."""
        member = self.update.group.members.get(member_id)
        before = None if member is None else member.metadata
        if metadata == before:
            return False
        self._change(MemberChanged(member_id, metadata))
        before = before or MemberMetadata()
        has_new_names = metadata.topic_names != before.topic_names
        has_new_regex = (metadata.topic_regex or "") != (before.topic_regex or "")
        finds_something = has_new_regex and self._finds_something(metadata.topic_regex or "")
        self._reads_otherwise = has_new_names or finds_something
        return has_new_names or has_new_regex

    def _finds_something(self, regex: str) -> bool:
        """Resolve all expressions. An expression that is new to the group and matches nothing changes nothing."""
        is_known = not regex or regex in self.update.group.regexes
        self.settle_regexes()
        return is_known or bool(self.update.group.regexes[regex].topics)

    # --- what the group reads -----------------------------------------------------------------------------------------

    def settle_regexes(self) -> None:
        """Resolve new expressions, drop unused ones. Raises INVALID_REGULAR_EXPRESSION."""
        used = self.update.group.subscribed_regexes
        for regex in [regex for regex in self.update.group.regexes if regex not in used]:
            self._change(RegexChanged(regex, None))
        self._resolve([regex for regex in used if regex not in self.update.group.regexes])

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
            known = self.update.group.regexes.get(regex)
            if known is None or known.topics != topics:
                self._change(RegexChanged(regex, ResolvedRegex(topics, _REGEX_VERSION, self.update.wall_ms)))
                has_changed = True
        return has_changed

    def look_at_topics(self) -> None:
        """Begin a new group epoch if the group's subscription or its topics have changed."""
        must_bump = self._resolve(list(self.update.group.regexes)) or self._reads_otherwise
        now = metadata_hash(self._topics, self.update.group.topics)
        if must_bump or now != self.update.group.group_epoch.metadata_hash:
            self.update.begin_epoch(now)
        self.update.is_checked = not self._is_behind

    # --- who reads what -----------------------------------------------------------------------------------------------

    def maybe_assign(self) -> None:
        """Compute a target assignment for the group epoch, unless the last one is too recent."""
        self.update.maybe_assign(self._config.assignment_interval_ms, self._targets, {})

    def _targets(self) -> Mapping[str, TopicPartitions]:
        known = [name for name in self._config.assignors if name in ASSIGNORS]
        name = self.update.group.preferred_assignor(known) or known[0]
        subscribers = [self._subscriber(member) for member in self.update.group.members.values()]
        return ASSIGNORS[name](subscribers, self._partition_counts(subscribers))

    def _subscriber(self, member: ConsumerMember) -> Subscriber:
        topics = topic_ids(self._topics, self.update.group.topics_of(member))
        return Subscriber(member.member_id, member.instance_id, topics, self.update.group.target_of(member.member_id))

    def _partition_counts(self, subscribers: Sequence[Subscriber]) -> Mapping[UUID, int]:
        wanted = frozenset().union(*(subscriber.topics for subscriber in subscribers))
        found = map(self._topics.by_id, wanted)
        return {topic.topic_id: topic.partition_count for topic in found if topic is not None}

    def reconcile(
        self, member_id: str, reported: Mapping[UUID, Collection[int]] | None, *, has_new_subscription: bool
    ) -> ConsumerMember:
        """Bring the member one step closer to its target."""
        group = self.update.group
        member = group.members[member_id]
        if not has_new_subscription and member.current.is_reconciled_to(group.target_epoch.epoch):
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
        moved: ConsumerMember = self.update.move(member_id, current)
        return moved
