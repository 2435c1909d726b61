"""The coordinator of share groups: checks each heartbeat, and decides what follows from it (KIP-932).

Owns: the checks of ShareGroupHeartbeat in Kafka's order, joining, leaving, fencing, and how a decision is logged. Does
not own: the steps of a change (`update`), the states of share-partitions (`lifecycle`), offsets (`offsets`).
Invariant: a response to a member contains only durable state.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from oncelog.broker.coordinator.group.consumer.ports import TopicCatalog
from oncelog.broker.coordinator.group.consumer.sessions import Wait
from oncelog.broker.coordinator.group.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.heartbeat import (
    HeartbeatRequest,
    HeartbeatResult,
    check_epoch,
    check_heartbeat,
    check_room,
    unknown_member,
)
from oncelog.broker.coordinator.group.share.lifecycle import StateLifecycle
from oncelog.broker.coordinator.group.share.lookup import existing, existing_or_new, not_found, share_group
from oncelog.broker.coordinator.group.share.member import MemberMetadata, ShareMember
from oncelog.broker.coordinator.group.share.offsets import ShareOffsets
from oncelog.broker.coordinator.group.share.ports import ShareGroupSettings, ShareStates
from oncelog.broker.coordinator.group.share.update import ShareGroupUpdate
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Decision(Generic[T]):
    update: ShareGroupUpdate
    response: T
    then: Callable[[], None] | None = None
    """Called in the same turn, once the records are logged."""


class ShareGroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        topics: TopicCatalog,
        settings: ShareGroupSettings,
        states: Callable[[], ShareStates],
        slices: Slices,
    ) -> None:
        """`states()` returns the share coordinator, which is made when it is needed."""
        self._runtime = runtime
        self._clock = clock
        self._topics = topics
        self._settings = settings
        self.lifecycle = StateLifecycle(runtime, clock, topics, settings, states, slices)
        self.offsets = ShareOffsets(runtime, topics, self.lifecycle)

    @property
    def is_enabled(self) -> bool:
        return self._settings.is_enabled

    @property
    def assignor(self) -> str:
        return self._settings.assignor

    def describe(self, group_id: str) -> Completion[ShareGroup]:
        """The group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""
        return self._runtime.read(group_id, lambda life: existing(life, group_id).copy())

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> Completion[HeartbeatResult]:
        """ShareGroupHeartbeat: a member reports, joins or leaves. Fails with KafkaError."""
        try:
            if not self._settings.is_enabled:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            check_heartbeat(request)
        except KafkaError as error:
            return Completion.failed(error)
        decide = self._decide_leave if request.is_leaving else self._decide_heartbeat
        return self._write(request.group_id, lambda life: decide(life, request))

    def _decide_heartbeat(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group_id, member_id = request.group_id, request.member_id
        base = existing_or_new(life, group_id)
        if base is not share_group(life, group_id) and not request.is_joining:
            raise not_found(f"Share group {group_id} not found.")
        check_room(base, member_id, self._settings.max_size)
        before = base.members.get(member_id)
        if before is None and not request.is_joining:
            raise unknown_member(member_id, group_id)
        if before is not None:
            check_epoch(before, request.member_epoch)
        update, is_checked = self._update(base), group_id in life.checked
        has_new_subscription = update.describe_member(member_id, _to_metadata(before, request))
        update.look_at_topics(has_new_subscription=has_new_subscription, is_checked=is_checked)
        update.maybe_assign(self._settings.assignment_interval_ms(group_id))
        member = update.reconcile(member_id)
        begin = self.lifecycle.prepare(life, update)

        def then() -> None:
            life.sessions.expect(group_id, member_id, Wait.SESSION, self._settings.session_timeout_ms(group_id))
            if begin is not None:
                begin()

        is_full = request.topic_names is not None
        had = {} if before is None else before.current.assigned
        includes_assignment = request.is_joining or is_full or member.current.assigned != had
        return Decision(
            update,
            HeartbeatResult(
                member_id,
                member.epoch,
                self._settings.heartbeat_interval_ms(group_id),
                member.current.assigned if includes_assignment else None,
            ),
            then,
        )

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _decide_leave(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group = existing(life, request.group_id)
        if request.member_id not in group.members:
            raise unknown_member(request.member_id, request.group_id)
        return self._removal(life, group, request.member_id, HeartbeatResult(request.member_id, request.member_epoch))

    def _removal(self, life: GroupShardLife, group: ShareGroup, member_id: str, response: T) -> Decision[T]:
        update = self._update(group)
        update.remove(member_id)
        return Decision(update, response, lambda: life.sessions.forget(group.group_id, member_id))

    # --- for the life of a shard --------------------------------------------------------------------------------------

    def on_active(self, life: GroupShardLife, group: ShareGroup) -> None:
        """Let members continue where they were, with a new session; states that were being made are begun again at the
        next heartbeat."""
        timeout_ms = self._settings.session_timeout_ms(group.group_id)
        for member_id in group.members:
            life.sessions.expect(group.group_id, member_id, Wait.SESSION, timeout_ms)

    def on_expired(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        """Remove a member that was silent."""

        def decide(_: GroupShardLife) -> Decision[None]:
            group = share_group(life, group_id)
            if group is None or member_id not in group.members:
                return Decision(self._update(ShareGroup(group_id)), None)
            return self._removal(life, group, member_id, None)

        if self._write(group_id, decide).error is not None:
            # Not logged, perhaps because the disk is full: the member keeps its partitions for another session.
            life.sessions.expect(group_id, member_id, Wait.SESSION, self._settings.session_timeout_ms(group_id))

    def on_topic_removed(self, name: str) -> Sliced[None]:
        """Forget the states of a topic whose removal is durable: before that a crash could bring the topic back, and
        its states would be begun again."""
        for life in self._runtime.shards():
            for group_id in list(life.shard.modern_groups()):
                group = share_group(life, group_id)
                yield 1
                if group is not None and group.states.ids_of(name):
                    self._write(group_id, partial(self._decide_forgetting, group_id, name))

    def _decide_forgetting(self, group_id: str, name: str, life: GroupShardLife) -> Decision[None]:
        update = self._update(share_group(life, group_id) or ShareGroup(group_id))
        update.forget_topic(name)
        return Decision(update, None)

    # --- logging ------------------------------------------------------------------------------------------------------

    def _update(self, base: ShareGroup) -> ShareGroupUpdate:
        return ShareGroupUpdate(base, self._topics, self._clock.wall_ms())

    def _write(self, group_id: str, decide: Callable[[GroupShardLife], Decision[T]]) -> Completion[T]:
        """Decide, log and apply in this turn; completes once durable, or with the KafkaError raised on the way. A
        decision that could not be logged starts or stops no timer."""
        made: list[tuple[GroupShardLife, Decision[T]]] = []

        def operation(life: GroupShardLife) -> WriteResult[T]:
            decision = decide(life)
            made.append((life, decision))
            return WriteResult(decision.update.records, decision.response)

        written = self._runtime.write(group_id, operation)
        if made and written.error is None:
            life, decision = made[0]
            if decision.update.is_checked:
                life.checked.add(group_id)
            if decision.then is not None:
                decision.then()
        return written


def _to_metadata(before: ShareMember | None, request: HeartbeatRequest) -> MemberMetadata:
    known = MemberMetadata() if before is None else before.metadata
    names = known.topic_names if request.topic_names is None else tuple(sorted(frozenset(request.topic_names)))
    rack_id = known.rack_id if request.rack_id is None else request.rack_id
    return MemberMetadata(rack_id, request.client_id, request.client_host, names)
