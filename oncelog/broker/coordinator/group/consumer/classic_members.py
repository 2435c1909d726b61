"""Members that use the classic protocol in a consumer group: a group between two protocols (KIP-848).

Owns: JoinGroup, SyncGroup, Heartbeat and LeaveGroup in consumer groups. To such a member the member epoch is the
generation, and no member is the leader: it gets its assignment from the broker, in the format of a leader's assignment.
Does not own: the steps of a change (`update`), when the group becomes a classic one (`migration`).
Invariant: such a member rejoins once for each step of its reconciliation; in between it owns its last assignment.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from oncelog.broker.config.group_settings import ConsumerGroupConfig, GroupSettings
from oncelog.broker.coordinator.group.consumer.coordinator import ConsumerGroupCoordinator, check_room, check_static
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.heartbeat import LeavingMember
from oncelog.broker.coordinator.group.consumer.member import (
    ClassicMetadata,
    ConsumerMember,
    MemberMetadata,
    MemberState,
    without_epochs,
)
from oncelog.broker.coordinator.group.consumer.update import ConsumerSteps
from oncelog.broker.coordinator.group.engine.errors import unknown_member
from oncelog.broker.coordinator.group.engine.requests import JoinRequest, JoinResult, SyncResult
from oncelog.broker.coordinator.group.engine.sessions import Wait
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife
from oncelog.broker.coordinator.group.engine.subscription import CONSUMER, encode_assignment, read_subscription
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog, by_name, by_topic_id
from oncelog.broker.coordinator.group.engine.writer import Decision
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription


class ClassicMembers:
    def __init__(
        self, coordinator: ConsumerGroupCoordinator, topics: TopicCatalog, settings: GroupSettings[ConsumerGroupConfig]
    ) -> None:
        self._coordinator = coordinator
        self._writer = coordinator.writer
        self._settings = settings
        self._topics = topics

    # --- joining ------------------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Completion[JoinResult]:
        """JoinGroup: completes at once, as no member waits for others here. Fails with KafkaError."""
        return self._writer.write(request.group_id, lambda life: self._decide_join(life, request))

    def _decide_join(self, life: GroupShardLife, request: JoinRequest) -> Decision[JoinResult]:
        group = self._writer.find(life, request.group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        steps = self._coordinator.steps(group)
        steps.may_describe = request.may_describe
        member_id = request.member_id or self._coordinator.new_member_id()
        self._check_join(group, member_id, request)
        if not request.member_id and request.requires_known_member_id and request.group_instance_id is None:
            return Decision(steps.update, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        subscription = read_subscription(request.protocols[0][1])
        if subscription is None:
            raise _inconsistent("Malformed embedded consumer protocol in subscription deserialization.")
        replaced = group.static_member(request.group_instance_id)
        self._enter(steps, member_id, request)
        has_new_subscription = steps.describe_member(member_id, _to_metadata(steps, member_id, request, subscription))
        if has_new_subscription or request.group_id not in life.checked:
            steps.look_at_topics()
        owned = _owned_partitions(self._topics, subscription)
        if replaced is not None and self._downgrades(group, replaced):
            return self._decide_downgrade(life, steps, member_id, owned, has_new_subscription)
        steps.maybe_assign()
        member = steps.reconcile(member_id, owned, has_new_subscription=has_new_subscription)
        return Decision(steps.update, _join_result(member), [lambda: self._await_sync(life, request, member)])

    def _check_join(self, group: ConsumerGroup, member_id: str, request: JoinRequest) -> None:
        check_room(group, member_id, request.group_instance_id, self._settings.of(group.group_id).max_size)
        if not _supports(group, request):
            raise _inconsistent(f"Member {member_id}'s protocols are not supported.")

    def _enter(self, steps: ConsumerSteps, member_id: str, request: JoinRequest) -> None:
        instance_id = request.group_instance_id
        if instance_id is None:
            return
        existing = steps.update.group.static_member(instance_id)
        if request.member_id:
            check_static(existing, member_id, instance_id)
        elif existing is not None:
            steps.replace(existing, member_id)

    def _downgrades(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        """Whether the last member of the consumer protocol returns with the classic one."""
        is_last = not replaced.is_classic
        return is_last and self._coordinator.may_downgrade(group, [replaced.member_id], replaced.member_id)

    def _decide_downgrade(
        self,
        life: GroupShardLife,
        steps: ConsumerSteps,
        member_id: str,
        owned: Mapping[UUID, frozenset[int]],
        has_new_subscription: bool,
    ) -> Decision[JoinResult]:
        must_rebalance = steps.update.group.assignment_epoch < steps.update.group.epoch
        if not must_rebalance:
            steps.reconcile(member_id, owned, has_new_subscription=has_new_subscription)
        member = steps.update.group.members[member_id]
        follow = self._coordinator.downgrade(life, steps.update, (), must_rebalance=must_rebalance)
        return Decision(steps.update, _join_result(member), [follow])

    # --- a member's life ----------------------------------------------------------------------------------------------

    def sync(
        self,
        life: GroupShardLife,
        group: ConsumerGroup,
        generation_id: int,
        member_id: str,
        instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
    ) -> Completion[SyncResult]:
        """SyncGroup: the partitions of the member that are free. Raises KafkaError."""
        member = self._find(group, generation_id, member_id, instance_id)
        chosen = _protocols(member)[0][0]
        if protocol_type not in (None, CONSUMER) or protocol_name not in (None, chosen):
            raise _inconsistent("The protocol is not the one in the response to the join.")
        if group.assignment_epoch > member.epoch and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            _await_join(life, group, member)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)

        def decide(_: GroupShardLife) -> Decision[SyncResult]:
            result = SyncResult(
                protocol_type=protocol_type,
                protocol_name=protocol_name,
                assignment=self._assignment(member),
            )
            return Decision(self._writer.update(group), result, [lambda: self._on_synced(life, group, member)])

        return self._writer.write(group.group_id, decide)

    def heartbeat(
        self, life: GroupShardLife, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None
    ) -> ErrorCode:
        """Heartbeat: REBALANCE_IN_PROGRESS makes the member rejoin for its next step. Raises KafkaError."""
        member = self._find(group, generation_id, member_id, instance_id)
        self._writer.start_session(life, group.group_id, member)
        state = member.current.state
        is_behind = member.epoch < group.assignment_epoch or state is MemberState.UNREVOKED_PARTITIONS
        if is_behind or (state is MemberState.UNRELEASED_PARTITIONS and not _is_waiting(group, member)):
            _await_join(life, group, member)
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Completion[list[ErrorCode]]:
        """LeaveGroup, by a tool also for members of the other protocol: all of them in one step."""
        return self._writer.write(group_id, lambda life: self._decide_leave(life, group_id, leaving))

    def _decide_leave(
        self, life: GroupShardLife, group_id: str, leaving: Sequence[LeavingMember]
    ) -> Decision[list[ErrorCode]]:
        group = self._writer.find(life, group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        gone: dict[str, None] = {}
        errors = []
        for entry in leaving:
            try:
                gone[_leaving_member(group, entry).member_id] = None
                errors.append(ErrorCode.NONE)
            except KafkaError as error:
                errors.append(error.code)
        update, then = self._coordinator.prepare_removal(life, group, gone)
        return Decision(update, errors, then)

    def _await_sync(self, life: GroupShardLife, request: JoinRequest, member: ConsumerMember) -> None:
        life.sessions.done(request.group_id, member.member_id, Wait.JOIN)
        self._writer.start_session(life, request.group_id, member)
        life.sessions.expect(request.group_id, member.member_id, Wait.SYNC, request.rebalance_timeout_ms)

    def _on_synced(self, life: GroupShardLife, group: ConsumerGroup, member: ConsumerMember) -> None:
        life.sessions.done(group.group_id, member.member_id, Wait.SYNC)
        self._writer.start_session(life, group.group_id, member)

    def _assignment(self, member: ConsumerMember) -> bytes:
        """Return what the member owns, in the encoding of the classic protocol."""
        return encode_assignment(
            by_name(self._topics, without_epochs(member.current.assigned)), _protocols(member)[0][1]
        )

    def _find(
        self, group: ConsumerGroup, generation_id: int, member_id: str, instance_id: str | None
    ) -> ConsumerMember:
        if instance_id is None:
            member = group.members.get(member_id)
            if member is None:
                raise unknown_member(member_id, group.group_id)
        else:
            member = check_static(group.static_member(instance_id), member_id, instance_id)
        if not member.is_classic:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation_id != member.epoch:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return member


def _await_join(life: GroupShardLife, group: ConsumerGroup, member: ConsumerMember) -> None:
    timeout_ms = member.metadata.rebalance_timeout_ms
    life.sessions.expect_once(group.group_id, member.member_id, Wait.JOIN, timeout_ms)


def _inconsistent(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether one of the request's protocols is supported by every member that uses the classic one."""
    if request.protocol_type != CONSUMER:
        return False
    known = [{name for name, _ in _protocols(member)} for member in group.classic_members]
    return any(all(name in names for names in known) for name, _ in request.protocols)


def _protocols(member: ConsumerMember) -> Sequence[tuple[str, bytes]]:
    classic = member.metadata.classic
    return () if classic is None else classic.protocols


def _join_result(member: ConsumerMember) -> JoinResult:
    return JoinResult(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=_protocols(member)[0][0],
    )


def _to_metadata(
    steps: ConsumerSteps, member_id: str, request: JoinRequest, subscription: ConsumerProtocolSubscription
) -> MemberMetadata:
    member = steps.update.group.members.get(member_id)
    known = MemberMetadata() if member is None else member.metadata
    return MemberMetadata(
        instance_id=request.group_instance_id if request.group_instance_id is not None else known.instance_id,
        rack_id=subscription.rack_id or known.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        server_assignor=known.server_assignor,
        classic=ClassicMetadata(request.session_timeout_ms, tuple(request.protocols)),
    )


def _owned_partitions(
    topics: TopicCatalog, subscription: ConsumerProtocolSubscription
) -> Mapping[UUID, frozenset[int]]:
    return by_topic_id(topics, {entry.topic: entry.partitions for entry in subscription.owned_partitions})


def _is_waiting(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether a partition of the member's target still belongs to another member."""
    return any(
        group.is_owned(topic_id, partition)
        for topic_id, partitions in group.target_of(member.member_id).items()
        for partition in partitions - member.current.assigned.get(topic_id, {}).keys()
    )


def _leaving_member(group: ConsumerGroup, entry: LeavingMember) -> ConsumerMember:
    if entry.instance_id is None:
        member = group.members.get(entry.member_id)
        if member is None:
            raise unknown_member(entry.member_id, group.group_id)
        return member
    member = group.static_member(entry.instance_id)
    if member is not None and not entry.member_id:
        return member
    return check_static(member, entry.member_id, entry.instance_id)
