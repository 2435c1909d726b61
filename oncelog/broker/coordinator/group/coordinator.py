"""The group coordinator: checks each request to a classic group, and passes on those for consumer groups.

Owns: the checks of joins, syncs, heartbeats and leaves, in Kafka's order. Does not own: the groups, each of which
belongs to one partition (`engine.shard_life`), the course of a rebalance (`classic.rebalance`), groups of other types
(`consumer`, `share`, `streams`), committed offsets (`offsets`), what is logged (`engine.shard`), describing, listing
and deleting groups (`administration`).

KIPs: 345 (static members), 394 (member id required), 559 (protocol names), 800, 814 (skipped assignment), 848.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from oncelog.broker.config.group_settings import ConsumerGroupConfig, GroupSettings
from oncelog.broker.coordinator.group.administration import GroupAdministration
from oncelog.broker.coordinator.group.classic.groups import ClassicGroups
from oncelog.broker.coordinator.group.classic.membership import Group, Member, member_from
from oncelog.broker.coordinator.group.classic.rebalance import Rebalancer, append_error
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.consumer.classic_members import ClassicMembers
from oncelog.broker.coordinator.group.consumer.coordinator import ConsumerGroupCoordinator
from oncelog.broker.coordinator.group.consumer.group import ConsumerGroup
from oncelog.broker.coordinator.group.consumer.heartbeat import LeavingMember
from oncelog.broker.coordinator.group.engine.kind import ModernGroup
from oncelog.broker.coordinator.group.engine.requests import (
    CONSUMER_TYPE,
    SHARE_TYPE,
    STREAMS_TYPE,
    JoinRequest,
    JoinResult,
    SyncResult,
)
from oncelog.broker.coordinator.group.engine.shard_life import GroupShardLife, GroupTypeCoordinator
from oncelog.broker.coordinator.group.engine.topics import TopicCatalog
from oncelog.broker.coordinator.group.engine.writer import Decision
from oncelog.broker.coordinator.group.kinds import kind_of, kind_of_record
from oncelog.broker.coordinator.group.migration import Migration
from oncelog.broker.coordinator.group.offsets import OffsetCoordinator
from oncelog.broker.coordinator.group.records import group_record
from oncelog.broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Entropy, Scheduler
from oncelog.broker.turns.schedule import Schedule
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:  # imported with the first group of their type
    from oncelog.broker.coordinator.group.share.coordinator import ShareGroupCoordinator
    from oncelog.broker.coordinator.group.streams.coordinator import StreamsGroupCoordinator

T = TypeVar("T")

_MEMBER_NAME_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings of the coordinator."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
    offset_metadata_max_bytes: int
    offsets_retention_ms: int
    offsets_retention_check_interval_ms: int
    regex_refresh_interval_ms: int


class GroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShardLife],
        clock: Clock,
        scheduler: Scheduler,
        entropy: Entropy,
        limits: GroupLimits,
        topics: TopicCatalog,
        settings: GroupSettings[ConsumerGroupConfig],
        make_shares: "Callable[[], ShareGroupCoordinator]",
        make_streams: "Callable[[], StreamsGroupCoordinator]",
    ) -> None:
        """`make_shares` and `make_streams` are called for the first group of their type: many brokers never have
        one."""
        self._runtime = runtime
        self._clock = clock
        self._entropy = entropy
        self._limits = limits
        self._scheduler = scheduler
        self._rebalancer = Rebalancer(clock, scheduler, limits.initial_rebalance_delay_ms, self._log_generation)
        self._classic_groups = ClassicGroups(self._rebalancer, limits.max_size)
        migration = Migration(topics, settings, self._classic_groups)
        self.consumers = ConsumerGroupCoordinator(runtime, clock, entropy, topics, settings, migration)
        self._types: Mapping[str, Callable[[], GroupTypeCoordinator]] = {
            CONSUMER_TYPE: lambda: self.consumers,
            SHARE_TYPE: lambda: self.shares,
            STREAMS_TYPE: lambda: self.streams,
        }
        self._make_shares = make_shares
        self._shares: "ShareGroupCoordinator | None" = None
        self._make_streams = make_streams
        self._streams: "StreamsGroupCoordinator | None" = None
        self._classic_members = ClassicMembers(self.consumers, topics, settings)
        self._regex_refresh = Schedule(clock, first_in_ms=limits.regex_refresh_interval_ms)
        self.offsets = OffsetCoordinator(runtime, clock, self._rebalancer.on_alive, limits.offset_metadata_max_bytes)
        self.administration = GroupAdministration(
            runtime,
            self._rebalancer.stop,
            clock,
            limits.offsets_retention_ms,
            limits.offsets_retention_check_interval_ms,
            self._prepare_deletion,
        )

    @property
    def shares(self) -> "ShareGroupCoordinator":
        """The coordinator of share groups."""
        if self._shares is None:
            self._shares = self._make_shares()
        return self._shares

    def make_shard(self, partition: int, _: int) -> GroupShardLife:
        """Make the shard of one life of a partition (`CoordinatorRuntime`); group records carry no coordinator
        epoch."""
        return GroupShardLife(
            partition,
            self._clock,
            self._scheduler,
            kind_of_record,
            self._coordinator_of,
            self._classic_groups,
        )

    @property
    def streams(self) -> "StreamsGroupCoordinator":
        """The coordinator of streams groups."""
        if self._streams is None:
            self._streams = self._make_streams()
        return self._streams

    def _coordinator_of(self, group_type: str) -> GroupTypeCoordinator:
        return self._types[group_type]()

    def partition_for(self, group_id: str) -> int:
        """Return the partition of `__consumer_offsets` that holds a group. Raises COORDINATOR_NOT_AVAILABLE."""
        return self._runtime.partition_for(group_id)

    def step(self) -> None:
        """Expire offsets and groups unused for offsets.retention.minutes, and refresh expressions, when that is due."""
        self.administration.step()
        if self._regex_refresh.take(self._limits.regex_refresh_interval_ms):
            self.consumers.refresh_regexes(self._runtime.shards())

    def on_topic_changed(self, name: str) -> None:
        """Let groups check the topic again: it was created, deleted or extended."""
        for life in self._runtime.shards():
            life.on_topic_changed(name)

    def on_topic_removed(self, name: str) -> Sliced[None]:
        """Delete the offsets of a topic whose removal is durable."""
        yield from self.administration.on_topic_removed(name)
        if self._shares is not None:
            yield from self._shares.on_topic_removed(name)

    def _prepare_deletion(self, group_id: str) -> Completion[None] | None:
        try:
            group = self._runtime.shard(group_id).shard.modern_group(group_id)
        except KafkaError:
            return None
        is_share_group = group is not None and group.group_type == SHARE_TYPE
        return self.shares.offsets.prepare_deletion(group_id) if is_share_group else None

    # --- joining ------------------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Completion[JoinResult]:
        """JoinGroup: completes when the rebalance is over. Raises KafkaError when the coordinator is not available."""
        life = self._runtime.shard(request.group_id)
        limits, member_id = self._limits, request.member_id
        if not request.group_id:
            return _join_error(ErrorCode.INVALID_GROUP_ID, member_id)
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            return _join_error(ErrorCode.INVALID_SESSION_TIMEOUT, member_id)
        modern_group = life.shard.modern_group(request.group_id)
        if isinstance(modern_group, ConsumerGroup):
            if modern_group.members:
                # As in Kafka, without the id of the member.
                return self._classic_members.join(request).recover(lambda error: JoinResult(error.code))
            self._make_classic(modern_group)
        elif modern_group is not None and not self._gives_way(modern_group):
            return _join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        group: Group | None = life.classic.get(request.group_id)
        if group is None:
            if member_id:
                return _join_error(ErrorCode.UNKNOWN_MEMBER_ID, member_id)
            group = life.classic[request.group_id] = Group(request.group_id)
        if not group.has_room_for(member_id, limits.max_size):
            self._rebalancer.remove(group, member_id)
            self._rebalancer.forget_pending(group, member_id)
            return _join_error(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not group.accepts(request):
            return _join_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        return self._join_known(group, request) if member_id else self._join_new(group, request)

    def _join_new(self, group: Group, request: JoinRequest) -> Completion[JoinResult]:
        # Truncated: either may be as long as a string can be, and the id must fit into one as well.
        name = (request.group_instance_id or request.client_id)[:_MEMBER_NAME_CHARACTERS]
        member_id = f"{name}-{self._entropy.uuid()}"
        if request.group_instance_id is not None:
            previous_id = group.static_members.get(request.group_instance_id)
            if previous_id is not None:
                return self._replace_static(group, group.members[previous_id], member_id, request)
        elif request.requires_known_member_id:
            self._rebalancer.await_pending(group, member_id, request.session_timeout_ms)
            return _join_error(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        return self._add(group, member_id, request)

    def _add(self, group: Group, member_id: str, request: JoinRequest) -> Completion[JoinResult]:
        member = member_from(member_id, request)
        group.add(member, request.protocol_type)
        return self._rebalancer.await_first_join(group, member)

    def _join_known(self, group: Group, request: JoinRequest) -> Completion[JoinResult]:
        member_id = request.member_id
        if group.remove_pending(member_id):
            return self._add(group, member_id, request)
        error = group.check_member(member_id, request.group_instance_id)
        if error:
            return _join_error(error, member_id)
        member = group.members[member_id]
        is_same = list(member.protocols) == list(request.protocols)
        # The response to its first try was lost. A leader that rejoins a stable group has a reason: it assigns again.
        is_repeated = group.state is GroupState.COMPLETING_REBALANCE or (
            group.state is GroupState.STABLE and member_id != group.leader_id
        )
        if is_same and is_repeated:
            self._rebalancer.on_alive(group, member)
            return Completion.of(group.join_result(member_id))
        member.update(request)
        return self._rebalancer.await_join(group, member)

    def _replace_static(
        self, group: Group, previous: Member, member_id: str, request: JoinRequest
    ) -> Completion[JoinResult]:
        """Let a static member return under a new member id: the old id is fenced, the assignment is kept (KIP-345)."""
        previous_leader_id = group.leader_id or ""
        member = member_from(member_id, request, previous.assignment)
        group.replace_static(previous, member)
        previous.answer_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, previous.member_id))
        previous.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        if group.state is not GroupState.STABLE or group.elect_protocol() != group.protocol_name:
            return self._rebalancer.await_join(group, member)
        # No rebalance: a restart within the session timeout is what static members are for.
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        logged = self._log_generation(group, assignments)
        if logged.error is not None:  # not appended, perhaps because the disk is full: the old id is still the member
            group.replace_static(member, previous)
            self._rebalancer.on_alive(group, previous)
            return _join_error(append_error(logged.error))
        self._rebalancer.on_alive(group, member)
        answer = self._rejoin_result(group, member_id, previous_leader_id, request.supports_skip_assignment)
        result: Completion[JoinResult] = Completion()

        def on_logged(done: Completion[None]) -> None:
            error = done.error
            result.complete(answer if error is None else JoinResult(append_error(error), member_id))

        logged.then(on_logged)
        return result

    def _rejoin_result(self, group: Group, member_id: str, previous_leader_id: str, skips: bool) -> JoinResult:
        """The response to a returning static member of a stable group.

        A leader must not assign again, as no member would ask for the result. Its response says so (KIP-814), or, if it
        is too old for that, names its old id as the leader.
        """
        is_leader = skips and member_id == group.leader_id
        return JoinResult(
            member_id=member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader_id=(group.leader_id or "") if skips else previous_leader_id,
            members=group.seen_by_leader() if is_leader else (),
            skip_assignment=is_leader,
        )

    # --- the life of a member -----------------------------------------------------------------------------------------

    def sync(
        self,
        group_id: str,
        generation_id: int,
        member_id: str,
        group_instance_id: str | None,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Sequence[tuple[str, bytes]],
    ) -> Completion[SyncResult]:
        """SyncGroup: completes with the member's assignment once the leader's assignment is durable."""
        life = self._runtime.shard(group_id)
        consumer_group = _consumer_group(life, group_id)
        if consumer_group is not None:
            synced = self._classic_members.sync(
                life, consumer_group, generation_id, member_id, group_instance_id, protocol_type, protocol_name
            )
            return synced.recover(lambda error: SyncResult(error.code))
        group, error = _find(life, group_id, member_id, group_instance_id, generation_id)
        if error or group is None:
            return Completion.of(SyncResult(error))
        if protocol_type not in (None, group.protocol_type) or protocol_name not in (None, group.protocol_name):
            return Completion.of(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        if group.state is GroupState.PREPARING_REBALANCE:
            return Completion.of(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member = group.members[member_id]
        member.owes_sync = False
        self._rebalancer.on_alive(group, member)
        if group.state is GroupState.STABLE:
            return Completion.of(group.sync_result(member))
        waiter = self._rebalancer.await_sync(group, member)
        if member_id == group.leader_id:
            self._rebalancer.assign(group, dict(assignments))
        return waiter

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Heartbeat: return NONE, REBALANCE_IN_PROGRESS, or why the member is rejected."""
        life = self._runtime.shard(group_id)
        consumer_group = _consumer_group(life, group_id)
        if consumer_group is not None:
            return self._classic_members.heartbeat(life, consumer_group, generation_id, member_id, group_instance_id)
        group, error = _find(life, group_id, member_id, group_instance_id, generation_id)
        if error or group is None:
            return error
        self._rebalancer.on_alive(group, group.members[member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> Completion[list[ErrorCode]]:
        """LeaveGroup: an error code for each member. Fails with KafkaError."""
        try:
            life = self._runtime.shard(group_id)
            if _consumer_group(life, group_id) is not None:
                return self._classic_members.leave(group_id, leaving)
            group = life.classic.get(group_id)
            return Completion.of([self._leave(group, member.member_id, member.instance_id) for member in leaving])
        except KafkaError as error:
            return Completion.failed(error)

    def _leave(self, group: Group | None, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Remove one member; a tool may name a static member by its instance id alone (KIP-345)."""
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if not member_id and group_instance_id is not None:
            member_id = group.static_members.get(group_instance_id, "")
        if member_id in group.pending_members:
            self._rebalancer.forget_pending(group, member_id)
            return ErrorCode.NONE
        error = group.check_member(member_id, group_instance_id)
        if not error:
            self._rebalancer.remove(group, member_id)
        return error

    def _log_generation(self, group: Group, assignments: Mapping[str, bytes]) -> Completion[None]:
        record = group_record(group.group_id, group.to_stored(assignments, self._clock.wall_ms()))
        return self._runtime.write(group.group_id, lambda _: WriteResult((record,), None))

    def _gives_way(self, group: ModernGroup) -> bool:
        """End an empty streams group, so that a classic one takes its place. Raises KafkaError if that cannot be
        logged."""
        if group.group_type != STREAMS_TYPE or group.members:
            return False
        records = kind_of(group).tombstones(group)
        written = self._runtime.write(group.group_id, lambda _: WriteResult(records, None))
        if written.error is not None:
            raise written.error
        return True

    def _make_classic(self, group: ConsumerGroup) -> None:
        """Turn an empty consumer group into a classic one. Raises KafkaError if that cannot be logged."""
        update = self.consumers.writer.update(group)
        update.dissolve()
        written = self.consumers.writer.write(group.group_id, lambda _: Decision(update, None))
        if written.error is not None:
            raise written.error


def _consumer_group(life: GroupShardLife, group_id: str) -> ConsumerGroup | None:
    group = life.shard.modern_group(group_id)
    return group if isinstance(group, ConsumerGroup) else None


def _find(
    life: GroupShardLife, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
) -> tuple[Group | None, ErrorCode]:
    """Return the group that a member of this generation belongs to, or the error of its request."""
    if not group_id:
        return None, ErrorCode.INVALID_GROUP_ID
    group: Group | None = life.classic.get(group_id)
    if group is None:
        return None, ErrorCode.UNKNOWN_MEMBER_ID
    error = group.check_member(member_id, group_instance_id)
    if not error and generation_id != group.generation_id:
        error = ErrorCode.ILLEGAL_GENERATION
    return group, error


def _join_error(error: ErrorCode, member_id: str = "") -> Completion[JoinResult]:
    return Completion.of(JoinResult(error, member_id))
