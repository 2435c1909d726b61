"""Carries out a decision about a consumer group: logs it, replays it, and only then adjusts timers.

Owns: how a `GroupUpdate` is logged, and what follows. Does not own: decisions, timers (`shard_life`).
Invariant: a decision that could not be logged starts or stops no timer, and adds or removes no classic group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.ports import ConsumerGroupSettings, TopicCatalog
from oncelog.broker.coordinator.group.consumer.sessions import Wait
from oncelog.broker.coordinator.group.consumer.update import GroupUpdate
from oncelog.broker.coordinator.group.shard_life import GroupShardLife
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, WallMs

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    update: GroupUpdate
    response: T
    then: list[Callable[[], None]] = field(default_factory=list)
    """Callbacks for when the records are logged."""


class GroupWriter:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        topics: TopicCatalog,
        settings: ConsumerGroupSettings,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self.topics = topics
        self.settings = settings

    @property
    def wall_ms(self) -> WallMs:
        return self._clock.wall_ms()

    def update(self, base: ConsumerGroup) -> GroupUpdate:
        return GroupUpdate(base, self.topics, self.settings, self._clock.wall_ms())

    def write(self, group_id: str, decide: Callable[[GroupShardLife], Decision[T]]) -> Completion[T]:
        """Decide, log and apply in this turn; completes once durable, or with the KafkaError raised on the way."""
        made: list[tuple[GroupShardLife, Decision[T]]] = []

        def operation(life: GroupShardLife) -> WriteResult[T]:
            decision = decide(life)
            made.append((life, decision))
            return WriteResult(decision.update.records, decision.response)

        written = self._runtime.write(group_id, operation)
        if made and written.error is None:
            _follow(group_id, *made[0])
        return written


def _follow(group_id: str, life: GroupShardLife, decision: Decision[T]) -> None:
    update, sessions = decision.update, life.sessions
    if update.is_checked:
        life.checked.add(group_id)
    for member_id in update.touched:
        member = update.group.members.get(member_id)
        if member is None:
            sessions.forget(group_id, member_id)
        elif member.is_revoking:
            sessions.expect(group_id, member_id, Wait.REVOCATION, member.metadata.rebalance_timeout_ms)
        else:
            sessions.done(group_id, member_id, Wait.REVOCATION)
    for follow in decision.then:
        follow()
