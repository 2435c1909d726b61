"""Carries out decisions about groups of one type: logs each, replays it, and only then adjusts timers.

Owns: how an `Update` is logged and what follows, sessions of members, the removal of silent ones. Does not own:
decisions (the coordinator of the type), timers (`sessions`).
Invariant: a decision that could not be logged starts or stops no timer, and adds or removes no classic group.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from oncelog.broker.config.group_settings import GroupSettings
from oncelog.broker.coordinator.group.engine.kind import GroupKind
from oncelog.broker.coordinator.group.engine.sessions import Wait
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.update import Update
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock

GroupT = TypeVar("GroupT", bound=Any)
T = TypeVar("T")
Follow = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    update: Update[Any]
    response: T
    then: list[Follow] = field(default_factory=list)
    """Callbacks for when the records are logged."""


class GroupWriter(Generic[GroupT]):
    def __init__(
        self,
        kind: GroupKind,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        settings: GroupSettings[Any],
    ) -> None:
        self._kind = kind
        self._runtime = runtime
        self._clock = clock
        self._settings = settings

    def update(self, base: GroupT) -> Update[GroupT]:
        return Update(self._kind, base, self._clock.wall_ms())

    def find(self, life: GroupShardLife, group_id: str) -> GroupT | None:
        """Return the group, to be read only; None also for a group of another type."""
        group: Any = life.shard.modern_group(group_id)
        found: GroupT | None = None if group is None or group.group_type != self._kind.group_type else group
        return found

    def existing(self, life: GroupShardLife, group_id: str) -> GroupT:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self.find(life, group_id)
        if group is None:
            raise life.not_found(self._kind, group_id, "Group")
        return group

    def existing_or_new(self, life: GroupShardLife, group_id: str) -> GroupT:
        """Return the group, or an empty one if the id is free. Raises GROUP_ID_NOT_FOUND where it has been used by
        another type, be it for offsets alone."""
        if life.knows(group_id):
            return self.existing(life, group_id)
        new: GroupT = self._kind.create(group_id)
        return new

    def describe(self, group_id: str) -> Completion[GroupT]:
        """Return a copy of the group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""
        return self._runtime.read(group_id, lambda life: self.existing(life, group_id).copy())

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

    # --- sessions -----------------------------------------------------------------------------------------------------

    def start_session(self, life: GroupShardLife, group_id: str, member: Any) -> None:
        timeout_ms = member.session_timeout_ms
        if timeout_ms is None:
            timeout_ms = self._settings.of(group_id).session_timeout_ms
        life.sessions.expect(group_id, member.member_id, Wait.SESSION, timeout_ms)

    def on_active(self, life: GroupShardLife, group: GroupT) -> None:
        """Let members continue where they were, with a new session."""
        for member in group.members.values():
            self.start_session(life, group.group_id, member)
            if member.is_revoking:
                _await_revocation(life, group.group_id, member)

    def on_expired(
        self,
        life: GroupShardLife,
        group_id: str,
        member_id: str,
        decide_removal: Callable[[GroupShardLife, GroupT], Decision[Any]],
    ) -> None:
        """Remove a member that was silent, or exceeded a timeout, as the type decides."""

        def decide(_: GroupShardLife) -> Decision[Any]:
            group = self.find(life, group_id)
            if group is None or member_id not in group.members:
                return Decision(self.update(self._kind.create(group_id)), None)
            return decide_removal(life, group)

        if self.write(group_id, decide).error is not None:
            # Not logged, perhaps because the disk is full: the member keeps what it has for another session.
            timeout_ms = self._settings.of(group_id).session_timeout_ms
            life.sessions.expect(group_id, member_id, Wait.SESSION, timeout_ms)


def _follow(group_id: str, life: GroupShardLife, decision: Decision[Any]) -> None:
    update, sessions = decision.update, life.sessions
    if update.is_checked:
        life.checked.add(group_id)
    for member_id in update.touched:
        member = update.group.members.get(member_id)
        if member is None:
            sessions.forget(group_id, member_id)
        elif member.is_revoking:
            _await_revocation(life, group_id, member)
        else:
            sessions.done(group_id, member_id, Wait.REVOCATION)
    for follow in decision.then:
        follow()


def _await_revocation(life: GroupShardLife, group_id: str, member: Any) -> None:
    life.sessions.expect(group_id, member.member_id, Wait.REVOCATION, member.metadata.rebalance_timeout_ms)
