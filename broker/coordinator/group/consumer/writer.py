"""How a decision about a consumer group becomes true: logged, replayed, and only then followed by clocks.

Owns: the way of a `GroupUpdate` into the log; which groups know their topics as they are now. Does not own: decisions.
Invariant: no clock starts or stops, and no classic group comes or goes, for a decision that could not be logged.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from oncelog.broker.completion import Completion
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.sessions import Sessions, Wait
from oncelog.broker.coordinator.group.consumer.surroundings import ConsumerGroupSettings, TopicCatalog
from oncelog.broker.coordinator.group.consumer.update import GroupUpdate
from oncelog.broker.coordinator.group.membership import Group
from oncelog.broker.coordinator.group.shard import GroupShard
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.ports import Clock, WallMs

T = TypeVar("T")


class ClassicGroups(Protocol):
    """The other side of a migration (`broker.coordinator.group.coordinator`)."""

    def get(self, group_id: str) -> Group | None: ...

    def release(self, group_id: str) -> None:
        """The group is none of the classic ones any more: who waits is told to join again."""

    def adopt(self, group: Group, *, must_rebalance: bool) -> None:
        """A group that has become a classic one; its sessions start."""


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    update: GroupUpdate
    response: T
    then: list[Callable[[], None]] = field(default_factory=list)
    """What is to be done once the records are in the log."""


class GroupWriter:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        clock: Clock,
        topics: TopicCatalog,
        settings: ConsumerGroupSettings,
        sessions: Sessions,
        classic_groups: ClassicGroups,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self.topics = topics
        self.settings = settings
        self.sessions = sessions
        self.classic_groups = classic_groups
        self._checked: set[str] = set()

    @property
    def wall_ms(self) -> WallMs:
        return self._clock.wall_ms()

    def update(self, base: ConsumerGroup) -> GroupUpdate:
        return GroupUpdate(base, self.topics, self.settings, self._clock.wall_ms())

    def write(self, group_id: str, decide: Callable[[GroupShard], Decision[T]]) -> Completion[T]:
        """Decide, log and apply in this turn; answered once durable, or with the KafkaError raised on the way."""
        made: list[Decision[T]] = []

        def operation(shard: GroupShard) -> WriteResult[T]:
            decision = decide(shard)
            made.append(decision)
            return WriteResult(decision.update.records, decision.response)

        written = self._runtime.write(group_id, operation)
        if made and written.error is None:
            self._follow(group_id, made[0])
        return written

    def _follow(self, group_id: str, decision: Decision[T]) -> None:
        update = decision.update
        if update.is_checked:
            self._checked.add(group_id)
        for member_id in update.touched:
            member = update.group.members.get(member_id)
            if member is None:
                self.sessions.forget(group_id, member_id)
            elif member.is_revoking:
                self.sessions.expect(group_id, member_id, Wait.REVOCATION, member.metadata.rebalance_timeout_ms)
            else:
                self.sessions.done(group_id, member_id, Wait.REVOCATION)
        for follow in decision.then:
            follow()

    # --- topics -------------------------------------------------------------------------------------------------------

    def knows_its_topics(self, group_id: str) -> bool:
        """Nothing has happened to them since the group last looked."""
        return group_id in self._checked

    def on_topic_changed(self, name: str) -> None:
        """A topic was made, deleted or has grown: the next heartbeat of each group that it concerns looks again."""
        for group_id in list(self._checked):
            group = self._runtime.shard(group_id).consumer_group(group_id)
            if group is None or name in group.topics or group.regexes:
                self._checked.discard(group_id)

    def forget_topics(self) -> None:
        self._checked.clear()
