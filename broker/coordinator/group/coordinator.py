"""The coordinator of classic consumer groups: joins, syncs, heartbeats, leaves, timeouts.

Owns: the volatile groups and every timer. Does not own: committed offsets (`offsets`), what is logged (`shard`), what
a group is (`membership`). A generation counts once the leader's assignment is durable in `__consumer_offsets`.
Invariants
- A member that joins waits until the rebalance ends; one that does not come back in time is out.
- Every timeout runs on the monotonic clock; members loaded after a restart get a fresh session timeout.

KIPs: 62 (rebalance timeout), 134 (initial delay), 345 (static members), 394 (member id required), 559, 800.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.completion import Completion
from broker.coordinator.group.membership import (
    Group,
    JoinRequest,
    JoinResult,
    Member,
    SyncResult,
    restored,
)
from broker.coordinator.group.offsets import OffsetCoordinator
from broker.coordinator.group.records import group_record
from broker.coordinator.group.shard import GroupShard
from broker.coordinator.group.states import GroupState
from broker.coordinator.runtime import CoordinatorRuntime, WriteResult
from broker.ports import Clock, Entropy, Scheduler
from protocol.errors import ErrorCode, KafkaError


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """The settings that the coordinator works with."""

    min_session_timeout_ms: int
    max_session_timeout_ms: int
    initial_rebalance_delay_ms: int
    max_size: int
    offset_metadata_max_bytes: int
    offsets_retention_ms: int


class GroupCoordinator:
    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        clock: Clock,
        scheduler: Scheduler,
        entropy: Entropy,
        limits: GroupLimits,
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._scheduler = scheduler
        self._entropy = entropy
        self._limits = limits
        self._groups: dict[str, Group] = {}
        self.offsets = OffsetCoordinator(
            runtime, clock, self._group_or_none, self._on_alive, limits.offset_metadata_max_bytes
        )

    def partition_for(self, group_id: str) -> int:
        """The partition of `__consumer_offsets` that holds a group. Raises COORDINATOR_NOT_AVAILABLE."""
        return self._runtime.partition_for(group_id)

    def load(self) -> None:
        """After the shards have replayed: members go on where they were, with a fresh session timeout."""
        for shard in self._runtime.shards():
            for group_id, stored in shard.groups().items():
                group = self._groups[group_id] = restored(group_id, stored)
                for member in group.members.values():
                    self._on_alive(group, member)

    def step(self, now_ms: int) -> None:
        """Forget the offsets, and then the groups, that nobody has used for offsets.retention.minutes."""
        for shard in self._runtime.shards():
            for group_id in shard.group_ids():
                group = self._groups.get(group_id)
                if group is None or group.state is GroupState.EMPTY:
                    self._maybe_expire(shard, group_id, now_ms)

    def _maybe_expire(self, shard: GroupShard, group_id: str, now_ms: int) -> None:
        stored = shard.group(group_id)
        idle_since_ms = stored.state_timestamp_ms if stored is not None else 0
        retention_ms = self._limits.offsets_retention_ms
        expired = list(shard.expired_partitions(group_id, idle_since_ms, now_ms, retention_ms))
        if expired:
            self.offsets.forget(group_id, expired)
        is_idle = now_ms - idle_since_ms >= retention_ms
        if stored is not None and is_idle and not shard.offsets(group_id) and not shard.pending_partitions(group_id):
            self._runtime.write(group_id, lambda _: WriteResult((group_record(group_id, None),), None))
            self._groups.pop(group_id, None)

    # --- requests -----------------------------------------------------------------------------------------------------

    def join(self, request: JoinRequest) -> Completion[JoinResult]:
        """JoinGroup: answered when the rebalance is over. Raises KafkaError when the coordinator is not available."""
        self._runtime.shard(request.group_id)
        limits = self._limits
        error = ErrorCode.NONE
        if not request.group_id:
            error = ErrorCode.INVALID_GROUP_ID
        elif not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            error = ErrorCode.INVALID_SESSION_TIMEOUT
        group = self._groups.get(request.group_id)
        if not error and group is None:
            if request.member_id:
                error = ErrorCode.UNKNOWN_MEMBER_ID
            else:
                group = self._groups[request.group_id] = Group(request.group_id)
        if error or group is None:
            return _joined(JoinResult(error, request.member_id))
        if not request.member_id:
            return self._join_new(group, request)
        return self._join_known(group, request)

    def _join_new(self, group: Group, request: JoinRequest) -> Completion[JoinResult]:
        if not group.accepts(request.protocol_type, request.protocols):
            return _joined(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        member_id = f"{request.group_instance_id or request.client_id}-{self._entropy.uuid()}"
        if request.group_instance_id is not None:
            previous_id = group.static_members.get(request.group_instance_id)
            if previous_id is not None:
                return self._replace_static(group, previous_id, member_id, request)
        elif request.requires_known_member_id:
            group.pending_members[member_id] = self._scheduler.call_later(
                request.session_timeout_ms, lambda: self._on_pending_expired(group, member_id)
            )
            return _joined(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        return self._add_member(group, member_id, request)

    def _join_known(self, group: Group, request: JoinRequest) -> Completion[JoinResult]:
        member_id = request.member_id
        pending = group.pending_members.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            if not group.accepts(request.protocol_type, request.protocols):
                return _joined(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
            return self._add_member(group, member_id, request)
        error = group.check_member(member_id, request.group_instance_id)
        if error:
            return _joined(JoinResult(error, member_id))
        member = group.members[member_id]
        is_same = list(member.protocols) == list(request.protocols)
        if group.state is GroupState.COMPLETING_REBALANCE and is_same:
            self._on_alive(group, member)
            return _joined(group.joined(member_id))  # the answer to the first try was lost
        if group.state is GroupState.STABLE and is_same and member_id != group.leader_id:
            self._on_alive(group, member)
            return _joined(group.joined(member_id))
        if not self._accepts_update(group, member, request):
            return _joined(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id))
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        return self._wait_for_join(group, member)

    def _accepts_update(self, group: Group, member: Member, request: JoinRequest) -> bool:
        if request.protocol_type != group.protocol_type or not request.protocols:
            return False
        kept, member.protocols = member.protocols, request.protocols
        try:
            return group.accepts(request.protocol_type, request.protocols)
        finally:
            member.protocols = kept

    def _add_member(self, group: Group, member_id: str, request: JoinRequest) -> Completion[JoinResult]:
        if len(group.members) >= self._limits.max_size:
            return _joined(JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED))
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
        )
        group.add(member, request.protocol_type)
        return self._wait_for_join(group, member)

    def _replace_static(
        self, group: Group, previous_id: str, member_id: str, request: JoinRequest
    ) -> Completion[JoinResult]:
        """A static member is back under a new member id: the old one is fenced, its assignment is kept (KIP-345)."""
        previous = group.members[previous_id]
        was_leader = group.leader_id == previous_id
        previous.answer_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, previous_id))
        previous.answer_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        position = list(group.members).index(previous_id)
        group.remove(previous_id)
        member = Member(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            previous.assignment,
        )
        group.add(member, request.protocol_type)
        others = [other for other in group.members if other != member_id]
        others.insert(position, member_id)
        group.members = {other: group.members[other] for other in others}
        if was_leader:
            group.leader_id = member_id
        is_same = member.metadata_for(group.protocol_name) == previous.metadata_for(group.protocol_name)
        if group.state is not GroupState.STABLE or not is_same:
            return self._wait_for_join(group, member)
        self._on_alive(group, member)
        assignments = {other.member_id: other.assignment for other in group.members.values()}
        # Told that the old id leads, a returning leader does not assign anew: the others never notice.
        answer = group.joined(member_id, leader_id=previous_id if was_leader else group.leader_id)
        return self._log_generation(group, assignments).map(lambda _: answer)

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
        """SyncGroup: answered with the member's assignment once the leader's is durable."""
        self._runtime.shard(group_id)
        group = self._groups.get(group_id)
        error = self._check(group, group_id, member_id, group_instance_id, generation_id)
        if error or group is None:
            return _synced(SyncResult(error))
        if protocol_type not in (None, group.protocol_type) or protocol_name not in (None, group.protocol_name):
            return _synced(SyncResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        member = group.members[member_id]
        self._on_alive(group, member)
        if group.state is GroupState.STABLE:
            return _synced(group.synced(member))
        if group.state is not GroupState.COMPLETING_REBALANCE:
            return _synced(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        waiter = member.sync_waiter = Completion[SyncResult]()
        if member_id == group.leader_id:
            self._assign(group, dict(assignments))
        return waiter

    def _assign(self, group: Group, assignments: dict[str, bytes]) -> None:
        generation_id = group.generation_id

        def on_durable(done: Completion[None]) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            if done.error is not None:
                for member in group.members.values():
                    member.answer_sync(SyncResult(_code(done.error)))
                self._prepare_rebalance(group)
                return
            group.move_to(GroupState.STABLE)
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                member.answer_sync(group.synced(member))

        self._log_generation(group, assignments).then(on_durable)

    def heartbeat(self, group_id: str, generation_id: int, member_id: str, group_instance_id: str | None) -> ErrorCode:
        """Heartbeat: NONE, REBALANCE_IN_PROGRESS, or why this is no member."""
        self._runtime.shard(group_id)
        group = self._groups.get(group_id)
        error = self._check(group, group_id, member_id, group_instance_id, generation_id)
        if error or group is None:
            return error
        self._on_alive(group, group.members[member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.REBALANCE_IN_PROGRESS
        return ErrorCode.NONE

    def leave(self, group_id: str, member_id: str, group_instance_id: str | None) -> tuple[ErrorCode, str]:
        """One member leaves; the error, and the member's id. A static member may be named by its instance id alone."""
        self._runtime.shard(group_id)
        group = self._groups.get(group_id)
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID, member_id
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, member_id
        if group_instance_id is not None and not member_id:
            member_id = group.static_members.get(group_instance_id, "")
        pending = group.pending_members.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            self._maybe_complete_join(group)
            return ErrorCode.NONE, member_id
        error = group.check_member(member_id, group_instance_id)
        if not error:
            self._remove(group, member_id)
        return error, member_id

    def _check(
        self, group: Group | None, group_id: str, member_id: str, group_instance_id: str | None, generation_id: int
    ) -> ErrorCode:
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        if group is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = group.check_member(member_id, group_instance_id)
        if error:
            return error
        return ErrorCode.NONE if generation_id == group.generation_id else ErrorCode.ILLEGAL_GENERATION

    # --- rebalance ----------------------------------------------------------------------------------------------------

    def _wait_for_join(self, group: Group, member: Member) -> Completion[JoinResult]:
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        waiter = member.join_waiter = Completion[JoinResult]()
        self._on_alive(group, member)
        if group.state is not GroupState.PREPARING_REBALANCE:
            self._prepare_rebalance(group)
        else:
            self._maybe_complete_join(group)
        return waiter

    def _prepare_rebalance(self, group: Group) -> None:
        for member in group.members.values():
            member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        was_empty = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE)
        delay_ms = self._limits.initial_rebalance_delay_ms
        group.is_waiting_for_first_members = was_empty and delay_ms > 0
        if not group.is_waiting_for_first_members:
            delay_ms = group.rebalance_timeout_ms
        group.rebalance_timer = self._scheduler.call_later(delay_ms, lambda: self._complete_join(group))
        self._maybe_complete_join(group)

    def _maybe_complete_join(self, group: Group) -> None:
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and not group.is_waiting_for_first_members and group.has_all_joined:
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        """Everybody is here, or the time is over: a new generation of whoever joined."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        if group.rebalance_timer is not None:
            group.rebalance_timer.cancel()
            group.rebalance_timer = None
        group.is_waiting_for_first_members = False
        for member in list(group.members.values()):
            if member.join_waiter is None and member.group_instance_id is None:
                group.remove(member.member_id)
        group.generation_id += 1
        if not group.members:
            group.protocol_name = None
            group.move_to(GroupState.EMPTY)
            self._log_generation(group, {})
            return
        leader = group.members.get(group.leader_id or "")
        if leader is None or leader.join_waiter is None:
            present = (other.member_id for other in group.members.values() if other.join_waiter)
            group.leader_id = next(present, group.leader_id)
        group.protocol_name = group.elect_protocol()
        group.move_to(GroupState.COMPLETING_REBALANCE)
        generation_id = group.generation_id
        group.rebalance_timer = self._scheduler.call_later(
            group.rebalance_timeout_ms, lambda: self._on_sync_expired(group, generation_id)
        )
        for member in list(group.members.values()):
            self._on_alive(group, member)
            member.answer_join(group.joined(member.member_id))

    def _on_sync_expired(self, group: Group, generation_id: int) -> None:
        """Members that joined and never asked for their assignment hold up the others: out with them."""
        if group.generation_id != generation_id or group.state is not GroupState.COMPLETING_REBALANCE:
            return
        for member in list(group.members.values()):
            if member.sync_waiter is None:
                group.remove(member.member_id)
        self._prepare_rebalance(group)

    def _log_generation(self, group: Group, assignments: dict[str, bytes]) -> Completion[None]:
        record = group_record(group.group_id, group.stored(assignments, self._clock.now_ms()))
        return self._runtime.write(group.group_id, lambda _: WriteResult((record,), None))

    # --- leaving and timeouts -----------------------------------------------------------------------------------------

    def _remove(self, group: Group, member_id: str) -> None:
        member = group.remove(member_id)
        if member is None:
            return
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member_id))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(group)
        else:
            self._maybe_complete_join(group)

    def _on_pending_expired(self, group: Group, member_id: str) -> None:
        if group.pending_members.pop(member_id, None) is not None:
            self._maybe_complete_join(group)

    def _on_alive(self, group: Group, member: Member) -> None:
        """Heard of a member: its session starts anew. One timer a member, re-armed only when it fires."""
        member.session_deadline_ms = self._clock.monotonic_ms() + member.session_timeout_ms
        if member.session_timer is None:
            member.session_timer = self._scheduler.call_later(
                member.session_timeout_ms, lambda: self._on_session_timer(group, member)
            )

    def _on_session_timer(self, group: Group, member: Member) -> None:
        member.session_timer = None
        if group.members.get(member.member_id) is not member:
            return
        left_ms = member.session_deadline_ms - self._clock.monotonic_ms()
        if left_ms <= 0 and member.join_waiter is None:
            self._remove(group, member.member_id)
            return
        # A member whose JoinGroup waits here cannot send heartbeats: its session goes on.
        delay_ms = left_ms if left_ms > 0 else member.session_timeout_ms
        member.session_timer = self._scheduler.call_later(delay_ms, lambda: self._on_session_timer(group, member))

    def _group_or_none(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)


def _joined(result: JoinResult) -> Completion[JoinResult]:
    return Completion.of(result)


def _synced(result: SyncResult) -> Completion[SyncResult]:
    return Completion.of(result)


def _code(error: Exception) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
