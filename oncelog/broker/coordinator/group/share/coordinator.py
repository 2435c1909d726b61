"""The coordinator of share groups: checks each heartbeat, and decides what follows from it (KIP-932).

Owns: the checks of ShareGroupHeartbeat in Kafka's order, joining, leaving, fencing. Does not own: the steps of a change
(`update`), how it is logged (`engine.writer`), the states of share-partitions (`lifecycle`), offsets (`offsets`).
Invariant: a response to a member contains only durable state.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from oncelog.broker.config.group_settings import GroupSettings, ShareGroupConfig
from oncelog.broker.coordinator.group.engine.errors import unknown_member
from oncelog.broker.coordinator.group.engine.requests import HeartbeatResult
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.engine.writer import Decision, GroupWriter
from oncelog.broker.coordinator.group.share.group import ShareGroup
from oncelog.broker.coordinator.group.share.heartbeat import (
    HeartbeatRequest,
    check_epoch,
    check_heartbeat,
    check_room,
)
from oncelog.broker.coordinator.group.share.kind import SHARE_GROUPS
from oncelog.broker.coordinator.group.share.lifecycle import StateLifecycle
from oncelog.broker.coordinator.group.share.member import MemberMetadata, ShareMember
from oncelog.broker.coordinator.group.share.offsets import ShareOffsets
from oncelog.broker.coordinator.group.share.ports import ShareStates
from oncelog.broker.coordinator.group.share.update import ShareSteps
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


class ShareGroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        topics: TopicCatalog,
        settings: GroupSettings[ShareGroupConfig],
        states: Callable[[], ShareStates],
        slices: Slices,
    ) -> None:
        """`states()` returns the share coordinator, which is made when it is needed."""
        self._runtime = runtime
        self._topics = topics
        self._settings = settings
        self._writer = GroupWriter[ShareGroup](SHARE_GROUPS, runtime, clock, settings)
        self.lifecycle = StateLifecycle(runtime, self._writer, clock, topics, settings, states, slices)
        self.offsets = ShareOffsets(runtime, self._writer, topics, self.lifecycle)

    @property
    def is_enabled(self) -> bool:
        return self._settings.is_enabled

    @property
    def assignor(self) -> str:
        return self._settings.of("").assignor

    def describe(self, group_id: str) -> Completion[ShareGroup]:
        """The group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""
        return self._writer.describe(group_id)

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
        return self._writer.write(request.group_id, lambda life: decide(life, request))

    def _decide_heartbeat(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group_id, member_id = request.group_id, request.member_id
        config = self._settings.of(group_id)
        base = self._writer.existing_or_new(life, group_id)
        if not life.knows(group_id) and not request.is_joining:
            raise life.not_found(SHARE_GROUPS, group_id, "Share group")
        check_room(base, member_id, config.max_size)
        before = base.members.get(member_id)
        if before is None and not request.is_joining:
            raise unknown_member(member_id, group_id)
        if before is not None:
            check_epoch(before, request.member_epoch)
        steps, is_checked = self._steps(base), group_id in life.checked
        has_new_subscription = steps.describe_member(member_id, _to_metadata(before, request))
        steps.look_at_topics(has_new_subscription=has_new_subscription, is_checked=is_checked)
        steps.maybe_assign(config.assignment_interval_ms)
        member = steps.reconcile(member_id)
        begin = self.lifecycle.prepare(life, steps)
        then = [lambda: self._writer.start_session(life, group_id, member)]
        if begin is not None:
            then.append(begin)
        is_full = request.topic_names is not None
        had = {} if before is None else before.current.assigned
        includes_assignment = request.is_joining or is_full or member.current.assigned != had
        return Decision(
            steps.update,
            HeartbeatResult(
                member_id,
                member.epoch,
                config.heartbeat_interval_ms,
                member.current.assigned if includes_assignment else None,
            ),
            then,
        )

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _decide_leave(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group = self._writer.existing(life, request.group_id)
        if request.member_id not in group.members:
            raise unknown_member(request.member_id, request.group_id)
        return self._removal(group, request.member_id, HeartbeatResult(request.member_id, request.member_epoch))

    def _removal(self, group: ShareGroup, member_id: str, response: T) -> Decision[T]:
        steps = self._steps(group)
        steps.remove(member_id)
        return Decision(steps.update, response)

    # --- for the life of a shard --------------------------------------------------------------------------------------

    def on_active(self, life: GroupShardLife, group: ShareGroup) -> None:
        """Let members continue where they were, with a new session; states that were being made are begun again at the
        next heartbeat."""
        self._writer.on_active(life, group)

    def on_expired(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        """Remove a member that was silent."""
        self._writer.on_expired(life, group_id, member_id, lambda _, group: self._removal(group, member_id, None))

    def on_topic_removed(self, name: str) -> Sliced[None]:
        """Forget the states of a topic whose removal is durable: before that a crash could bring the topic back, and
        its states would be begun again."""
        for life in self._runtime.shards():
            for group_id in list(life.shard.modern_groups()):
                group = self._writer.find(life, group_id)
                yield 1
                if group is not None and group.states.ids_of(name):
                    self._writer.write(group_id, partial(self._decide_forgetting, group_id, name))

    def _decide_forgetting(self, group_id: str, name: str, life: GroupShardLife) -> Decision[None]:
        steps = self._steps(self._writer.find(life, group_id) or ShareGroup(group_id))
        steps.forget_topic(name)
        return Decision(steps.update, None)

    def _steps(self, base: ShareGroup) -> ShareSteps:
        return ShareSteps(self._writer.update(base), self._topics)


def _to_metadata(before: ShareMember | None, request: HeartbeatRequest) -> MemberMetadata:
    known = MemberMetadata() if before is None else before.metadata
    names = known.topic_names if request.topic_names is None else tuple(sorted(frozenset(request.topic_names)))
    rack_id = known.rack_id if request.rack_id is None else request.rack_id
    return MemberMetadata(rack_id, request.client_id, request.client_host, names)
