"""The coordinator of consumer groups: checks each heartbeat, and decides what follows from it (KIP-848).

Owns: the checks of ConsumerGroupHeartbeat in Kafka's order, joining, leaving, fencing, and when a group changes its
protocol. Does not own: the steps of a change (`update`), how it is logged (`writer`), members that use the classic
protocol (`classic_members`).
Invariant: a response to a member contains only durable state.

KIPs: 345 (static members), 848, 1082 (member ids that clients generate).
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Mapping
from uuid import UUID

from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.heartbeat import (
    NOT_SAID,
    HeartbeatRequest,
    HeartbeatResult,
    check_heartbeat,
)
from oncelog.broker.coordinator.group.consumer.member import (
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
    PartitionEpochs,
    without_epochs,
)
from oncelog.broker.coordinator.group.consumer.migration import (
    check_upgrade,
    may_downgrade,
    to_classic_group,
    upgrade_changes,
)
from oncelog.broker.coordinator.group.consumer.ports import ConsumerGroupSettings, TopicCatalog, metadata_hash
from oncelog.broker.coordinator.group.consumer.records import CurrentChanged, GroupChanged, GroupEpoch
from oncelog.broker.coordinator.group.consumer.sessions import Wait
from oncelog.broker.coordinator.group.consumer.update import GroupUpdate
from oncelog.broker.coordinator.group.consumer.writer import Decision, GroupWriter
from oncelog.broker.coordinator.group.records import group_record
from oncelog.broker.coordinator.group.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.states import GroupState
from oncelog.broker.coordinator.runtime import CoordinatorRuntime
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Entropy
from oncelog.protocol.errors import ErrorCode, KafkaError

Follow = Callable[[], None]


class ConsumerGroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        entropy: Entropy,
        topics: TopicCatalog,
        settings: ConsumerGroupSettings,
    ) -> None:
        self._runtime = runtime
        self._entropy = entropy
        self._topics = topics
        self._settings = settings
        self.writer = GroupWriter(runtime, clock, topics, settings)

    def describe(self, group_id: str) -> Completion[ConsumerGroup]:
        """The group, once everything shown is durable. Fails with GROUP_ID_NOT_FOUND."""
        return self._runtime.read(group_id, lambda life: self._existing(life, group_id).copy())

    @property
    def is_enabled(self) -> bool:
        return self._settings.is_enabled

    def assignor_of(self, group: ConsumerGroup) -> str:
        known = self._settings.assignors
        return group.preferred_assignor(known) or known[0]

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    def heartbeat(self, request: HeartbeatRequest) -> Completion[HeartbeatResult]:
        """ConsumerGroupHeartbeat: a member reports, joins or leaves. Fails with KafkaError."""
        try:
            if not self._settings.is_enabled:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            check_heartbeat(request, self._settings.assignors)
            decide = self._decide_leave if request.is_leaving else self._decide_heartbeat
            return self.writer.write(request.group_id, lambda life: decide(life, request))
        except KafkaError as error:
            return Completion.failed(error)

    def _decide_heartbeat(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        update, then = self._begin_update(life, request)
        update.may_describe, update.matches = request.may_describe, request.matches
        check_room(update.group, request.member_id, request.instance_id, self._settings.max_size)
        member_id = request.member_id or self.new_member_id()
        before = self._find_member(update, member_id, request)
        has_new_subscription = update.describe_member(member_id, _to_metadata(before, request))
        if has_new_subscription or request.group_id not in life.checked:
            update.look_at_topics()
        update.maybe_assign()
        member = update.reconcile(member_id, request.owned, has_new_subscription=has_new_subscription)
        has_new_partitions = before is None or before.current.assigned != member.current.assigned
        includes_assignment = request.is_joining or request.is_full or has_new_partitions
        then.append(lambda: life.start_session(request.group_id, member))
        return Decision(
            update,
            HeartbeatResult(
                member_id,
                member.epoch,
                self._settings.heartbeat_interval_ms(request.group_id),
                without_epochs(member.current.assigned) if includes_assignment else None,
            ),
            then,
        )

    def new_member_id(self) -> str:
        return urlsafe_b64encode(self._entropy.uuid().bytes).decode().rstrip("=")

    def _begin_update(self, life: GroupShardLife, request: HeartbeatRequest) -> tuple[GroupUpdate, list[Follow]]:
        """Return the group to work on, which may be created for this or upgraded from a classic one."""
        group_id, shard = request.group_id, life.shard
        group, classic = shard.consumer_group(group_id), life.classic.get(group_id)
        if group is not None:
            return self.writer.update(group), []
        if not request.is_joining or shard.modern_group(group_id) is not None:
            is_there = classic is not None or shard.knows(group_id)
            raise _not_found(
                f"Group {group_id} is not a consumer group." if is_there else f"Consumer group {group_id} not found."
            )
        update = self.writer.update(ConsumerGroup(group_id))
        if classic is None:
            return update, []
        then: list[Follow] = [lambda: life.release(group_id)]
        if classic.state is not GroupState.EMPTY:
            check_upgrade(classic, self._settings)
            changes = list(upgrade_changes(classic, self._topics))
            update.records.append(group_record(group_id, None))
            update.change(*changes)
            converted = list(update.group.members.values())
            then.append(lambda: life.start_sessions(group_id, converted))
        else:
            update.records.append(group_record(group_id, None))
        return update, then

    def _find_member(self, update: GroupUpdate, member_id: str, request: HeartbeatRequest) -> ConsumerMember | None:
        """Return the member that sent the request; None for a new one. A static member that was away takes its old
        place."""
        if request.instance_id is not None:
            return self._find_static(update, member_id, request.instance_id, request)
        member = update.group.members.get(member_id)
        if member is None:
            if not request.is_joining:
                raise unknown_member(member_id, update.group.group_id)
            return None
        check_epoch(member, request.member_epoch, request.owned)
        return member

    def _find_static(
        self, update: GroupUpdate, member_id: str, instance_id: str, request: HeartbeatRequest
    ) -> ConsumerMember | None:
        existing = update.group.static_member(instance_id)
        if not request.is_joining:
            member = check_static(existing, member_id, instance_id)
            check_epoch(member, request.member_epoch, request.owned)
            return member
        if existing is None:
            return update.group.members.get(member_id)
        if existing.epoch != STATIC_LEAVE_EPOCH and not existing.is_classic:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
                f"id is owned by {existing.member_id} member.",
            )
        return update.replace(existing, member_id)

    # --- leaving ------------------------------------------------------------------------------------------------------

    def _decide_leave(self, life: GroupShardLife, request: HeartbeatRequest) -> Decision[HeartbeatResult]:
        group = self._existing(life, request.group_id)
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

    def _existing(self, life: GroupShardLife, group_id: str) -> ConsumerGroup:
        group = life.shard.consumer_group(group_id)
        if group is not None:
            return group
        is_there = group_id in life.classic or life.shard.knows(group_id)
        raise _not_found(f"Group {group_id} {'is not a consumer group' if is_there else 'not found'}.")

    def prepare_removal(
        self, life: GroupShardLife, group: ConsumerGroup, member_ids: Collection[str]
    ) -> tuple[GroupUpdate, list[Follow]]:
        """Remove members: the others continue in a new epoch, or as a classic group if that is possible."""
        update = self.writer.update(group)
        if not member_ids:
            return update, []
        if may_downgrade(group, member_ids, None, self._settings):
            return update, [self.downgrade(life, update, member_ids, must_rebalance=True)]
        for member_id in member_ids:
            update.remove(member_id)
        update.settle_regexes()
        known = metadata_hash(self._topics, update.group.topics)
        update.change(GroupChanged(GroupEpoch(update.group.epoch + 1, known)))
        return update, []

    def downgrade(
        self, life: GroupShardLife, update: GroupUpdate, leaving: Collection[str], *, must_rebalance: bool
    ) -> Follow:
        """Turn the group into a classic one; call the result once that is logged."""
        classic, assignments = to_classic_group(update.group, leaving, self._topics)
        update.dissolve()
        update.records.append(group_record(classic.group_id, classic.to_stored(assignments, self.writer.wall_ms)))
        return lambda: life.adopt(classic, must_rebalance=must_rebalance)

    def on_active(self, life: GroupShardLife, group: ConsumerGroup) -> None:
        """Let members continue where they were, with a new session."""
        life.start_sessions(group.group_id, group.members.values())
        for member in group.members.values():
            if member.is_revoking:
                timeout_ms = member.metadata.rebalance_timeout_ms
                life.sessions.expect(group.group_id, member.member_id, Wait.REVOCATION, timeout_ms)

    def on_expired(self, life: GroupShardLife, group_id: str, member_id: str) -> None:
        """Remove a member that was silent, or exceeded a timeout."""

        def decide(_: GroupShardLife) -> Decision[bool]:
            group = life.shard.consumer_group(group_id)
            if group is None or member_id not in group.members:
                return Decision(self.writer.update(ConsumerGroup(group_id)), False)
            update, then = self.prepare_removal(life, group, [member_id])
            return Decision(update, True, then)

        if self.writer.write(group_id, decide).error is not None:
            # Not logged, perhaps because the disk is full: the member keeps its partitions for another session.
            life.sessions.expect(group_id, member_id, Wait.SESSION, self._settings.session_timeout_ms(group_id))


def _not_found(message: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, message)


def unknown_member(member_id: str, group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED; a static member takes a place that it already has."""
    if instance_id in group.static_members or member_id in group.members:
        return
    if len(group.members) >= max_size:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {max_size} members.",
        )


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
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if epoch > member.epoch else 'smaller'} member epoch ({epoch}) "
        f"than the one known by the group coordinator ({member.epoch}). The member must abandon all its partitions "
        "and rejoin.",
    )


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
