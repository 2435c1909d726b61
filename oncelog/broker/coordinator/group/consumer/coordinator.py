"""The coordinator of consumer groups: checks each heartbeat, and decides what follows from it (KIP-848).

Owns: the checks of ConsumerGroupHeartbeat in Kafka's order, joining, leaving, fencing, and when a group changes its
protocol. Does not own: the steps of a change (`update`), how it is logged (`writer`), members that use the classic
protocol (`classic_members`).
Invariant: a response to a member contains only durable state.

KIPs: 345 (static members), 848, 1082 (member ids that clients generate).
"""

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Protocol
from uuid import UUID

from oncelog.broker.config.group_settings import ConsumerGroupConfig, GroupSettings
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.heartbeat import HeartbeatRequest, check_heartbeat
from oncelog.broker.coordinator.group.consumer.kind import CONSUMER_GROUPS
from oncelog.broker.coordinator.group.consumer.member import (
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    PartitionEpochs,
    without_epochs,
)
from oncelog.broker.coordinator.group.consumer.update import ConsumerSteps
from oncelog.broker.coordinator.group.engine.changes import Change, CurrentChanged
from oncelog.broker.coordinator.group.engine.errors import (
    NOT_SAID,
    STATIC_LEAVE_EPOCH,
    fenced,
    group_is_full,
    unknown_member,
)
from oncelog.broker.coordinator.group.engine.requests import HeartbeatResult
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, metadata_hash
from oncelog.broker.coordinator.group.engine.update import Update
from oncelog.broker.coordinator.group.engine.writer import Decision, Follow, GroupWriter
from oncelog.broker.coordinator.group.records import group_record
from oncelog.broker.coordinator.runtime import CoordinatorRecord, CoordinatorRuntime
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Entropy, WallMs
from oncelog.protocol.errors import ErrorCode, KafkaError


class Migration(Protocol):
    """Conversions of groups with members between the protocols (`group.migration`)."""

    def upgrade(self, life: GroupShardLife, group_id: str, /) -> Iterable[Change]:
        """Return the changes that turn the classic group into a consumer group. Raises GROUP_ID_NOT_FOUND."""

    def downgrade(
        self,
        life: GroupShardLife,
        group: ConsumerGroup,
        leaving: Collection[str],
        wall_ms: WallMs,
        *,
        must_rebalance: bool,
    ) -> tuple[CoordinatorRecord, Follow]:
        """Return the record of the classic group that takes the place of this one, and what starts it then."""


class ConsumerGroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        entropy: Entropy,
        topics: TopicCatalog,
        settings: GroupSettings[ConsumerGroupConfig],
        migration: Migration,
    ) -> None:
        self._entropy = entropy
        self._topics = topics
        self._settings = settings
        self._migration = migration
        self.writer = GroupWriter[ConsumerGroup](CONSUMER_GROUPS, runtime, clock, settings)
        self.describe = self.writer.describe
        self.on_active = self.writer.on_active

    @property
    def is_enabled(self) -> bool:
        return self._settings.is_enabled

    def assignor_of(self, group: ConsumerGroup) -> str:
        known = self._settings.of(group.group_id).assignors
        return group.preferred_assignor(known) or known[0]

    def refresh_regexes(self, lives: Iterable[GroupShardLife]) -> None:
        """Let each group match its expressions again at its next heartbeat: its members may describe other topics by
        now, which no event reports."""
        for life in lives:
            for group_id in list(life.checked):
                group = life.shard.modern_group(group_id)
                if isinstance(group, ConsumerGroup) and group.regexes:
                    life.checked.discard(group_id)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> Completion[HeartbeatResult]:
        """ConsumerGroupHeartbeat: a member reports, joins or leaves. Fails with KafkaError."""
        try:
            if not self._settings.is_enabled:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            check_heartbeat(request, self._settings.of(request.group_id).assignors)
            decide = self._decide_leave if request.is_leaving else self._decide_heartbeat
            return self.writer.write(request.group_id, lambda life: decide(life, request))
        except KafkaError as error:
            return Completion.failed(error)

    def _decide_heartbeat(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        config = self._settings.of(request.group_id)
        steps, then = self._begin(life, request)
        steps.may_describe, steps.matches = request.may_describe, request.matches
        check_room(steps.update.group, request.member_id, request.instance_id, config.max_size)
        member_id = request.member_id or self.new_member_id()
        before = self._find_member(steps, member_id, request)
        has_new_subscription = steps.describe_member(member_id, _to_metadata(before, request))
        if has_new_subscription or request.group_id not in life.checked:
            steps.look_at_topics()
        steps.maybe_assign()
        member = steps.reconcile(member_id, request.owned, has_new_subscription=has_new_subscription)
        has_new_partitions = before is None or before.current.assigned != member.current.assigned
        includes_assignment = request.is_joining or request.is_full or has_new_partitions
        then.append(lambda: self.writer.start_session(life, request.group_id, member))
        return Decision(
            steps.update,
            HeartbeatResult(
                member_id,
                member.epoch,
                config.heartbeat_interval_ms,
                without_epochs(member.current.assigned) if includes_assignment else None,
            ),
            then,
        )

    def new_member_id(self) -> str:
        return urlsafe_b64encode(self._entropy.uuid().bytes).decode().rstrip("=")

    def steps(self, group: ConsumerGroup) -> ConsumerSteps:
        """Begin a decision about the group."""
        return ConsumerSteps(self.writer.update(group), self._topics, self._settings.of(group.group_id))

    def _begin(self, life: GroupShardLife, request: HeartbeatRequest) -> tuple[ConsumerSteps, list[Follow]]:
        """Return the group to work on, which may be created for this or upgraded from a classic one."""
        group_id = request.group_id
        group, classic = self.writer.find(life, group_id), life.classic.get(group_id)
        if group is not None:
            return self.steps(group), []
        if not request.is_joining or life.shard.modern_group(group_id) is not None:
            raise life.not_found(CONSUMER_GROUPS, group_id, "Consumer group")
        steps = self.steps(ConsumerGroup(group_id))
        if classic is None:
            return steps, []
        then: list[Follow] = [lambda: life.release_classic(group_id)]
        steps.update.records.append(group_record(group_id, None))
        if not classic.is_empty:
            steps.update.change(*self._migration.upgrade(life, group_id))
            converted = list(steps.update.group.members.values())
            then += [partial(self.writer.start_session, life, group_id, member) for member in converted]
        return steps, then

    def _find_member(self, steps: ConsumerSteps, member_id: str, request: HeartbeatRequest) -> ConsumerMember | None:
        """Return the member that sent the request; None for a new one. A static member that was away takes its old
        place."""
        if request.instance_id is not None:
            return self._find_static(steps, member_id, request.instance_id, request)
        member = steps.update.group.members.get(member_id)
        if member is None:
            if not request.is_joining:
                raise unknown_member(member_id, steps.update.group.group_id)
            return None
        check_epoch(member, request.member_epoch, request.owned)
        return member

    def _find_static(
        self, steps: ConsumerSteps, member_id: str, instance_id: str, request: HeartbeatRequest
    ) -> ConsumerMember | None:
        existing = steps.update.group.static_member(instance_id)
        if not request.is_joining:
            member = check_static(existing, member_id, instance_id)
            check_epoch(member, request.member_epoch, request.owned)
            return member
        if existing is None:
            return steps.update.group.members.get(member_id)
        if existing.epoch != STATIC_LEAVE_EPOCH and not existing.is_classic:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {existing.member_id} member.",
            )
        return steps.replace(existing, member_id)

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _decide_leave(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group = self.writer.existing(life, request.group_id)
        response = HeartbeatResult(request.member_id, request.member_epoch)
        if request.instance_id is None:
            if request.member_id not in group.members:
                raise unknown_member(request.member_id, request.group_id)
        else:
            member = check_static(group.static_member(request.instance_id), request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return self._decide_static_leave(group, member, response)
        update, then = self.prepare_removal(life, group, [request.member_id])
        return Decision(update, response, then)

    def _decide_static_leave(
        self, group: ConsumerGroup, member: ConsumerMember, response: HeartbeatResult
    ) -> Decision[HeartbeatResult]:
        """Keep the place of a static member that returns within its session; it gives up what it had to revoke
        (KIP-848)."""
        update = self.writer.update(group)
        current = member.current
        away = CurrentAssignment(
            STATIC_LEAVE_EPOCH, current.previous_epoch, current.state, _since_ever(current.assigned)
        )
        update.change(CurrentChanged(member.member_id, away))
        return Decision(update, response)

    def prepare_removal(
        self, life: GroupShardLife, group: ConsumerGroup, member_ids: Collection[str]
    ) -> tuple[Update[ConsumerGroup], list[Follow]]:
        """Remove members: the others continue in a new epoch, or as a classic group if that is possible."""
        steps = self.steps(group)
        if not member_ids:
            return steps.update, []
        if self.may_downgrade(group, member_ids, None):
            return steps.update, [self.downgrade(life, steps.update, member_ids, must_rebalance=True)]
        for member_id in member_ids:
            steps.update.remove(member_id)
        steps.settle_regexes()
        steps.update.begin_epoch(metadata_hash(self._topics, steps.update.group.topics))
        return steps.update, []

    def may_downgrade(self, group: ConsumerGroup, leaving: Collection[str], joining: str | None) -> bool:
        """Whether only members of the classic protocol are left, without those that leave or are replaced by
        `joining`."""
        rest = [member for member in group.members.values() if member.member_id not in leaving]
        size = len(rest) + (joining is not None)
        config = self._settings.of(group.group_id)
        return (
            all(member.is_classic for member in rest)
            and size > 0
            and config.migration_policy.allows_downgrade
            and size <= config.classic_max_size
        )

    def downgrade(
        self, life: GroupShardLife, update: Update[ConsumerGroup], leaving: Collection[str], *, must_rebalance: bool
    ) -> Follow:
        """Turn the group into a classic one; call the result once that is logged."""
        record, follow = self._migration.downgrade(
            life, update.group, leaving, update.wall_ms, must_rebalance=must_rebalance
        )
        update.dissolve()
        update.records.append(record)
        return follow

    def on_expired(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        """Remove a member that was silent, or exceeded a timeout."""

        def decide(life: GroupShardLife, group: ConsumerGroup) -> Decision[None]:
            update, then = self.prepare_removal(life, group, [member_id])
            return Decision(update, None, then)

        self.writer.on_expired(life, group_id, member_id, decide)


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED; a static member takes a place that it already has."""
    if instance_id in group.static_members or member_id in group.members:
        return
    if len(group.members) >= max_size:
        raise group_is_full("consumer", max_size)


def check_static(member: ConsumerMember | None, member_id: str, instance_id: str) -> ConsumerMember:
    """Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def check_epoch(member: ConsumerMember, epoch: int, owned: Mapping[UUID, Collection[int]] | None) -> None:
    """Raises FENCED_MEMBER_EPOCH. The previous epoch is accepted from a member that may have missed one response."""
    if epoch in (0, member.epoch):
        return
    current = member.current
    if epoch == current.previous_epoch and epoch < member.epoch and _is_part_of(owned, current.assigned):
        return
    raise fenced("consumer", epoch, member.epoch)


def _is_part_of(owned: Mapping[UUID, Collection[int]] | None, assigned: PartitionEpochs) -> bool:
    if owned is None:
        return False
    return all(
        partition in assigned.get(topic_id, ()) for topic_id, partitions in owned.items() for partition in partitions
    )


def _since_ever(assigned: PartitionEpochs) -> PartitionEpochs:
    return {topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in assigned.items()}


def _to_metadata(before: ConsumerMember | None, request: HeartbeatRequest) -> MemberMetadata:
    known = MemberMetadata() if before is None else before.metadata
    names = known.topic_names if request.topic_names is None else tuple(sorted(set(request.topic_names)))
    timeout_ms = request.rebalance_timeout_ms
    return MemberMetadata(
        instance_id=known.instance_id if request.instance_id is None else request.instance_id,
        rack_id=known.rack_id if request.rack_id is None else request.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=names,
        topic_regex=known.topic_regex if request.topic_regex is None else request.topic_regex,
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        server_assignor=known.server_assignor if request.server_assignor is None else request.server_assignor,
    )
