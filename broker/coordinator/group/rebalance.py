"""Rebalances of classic groups: from the first join to the durable assignment of a new generation.

Owns: the moves between the states, sessions, how long whom is waited for. Does not own: what a group is
(`membership`), which request may do what (`coordinator`).
Invariants
- A member that joins waits until the rebalance ends; one that does not come back in time is out.
- A member whose request is held here is alive: it cannot send heartbeats on that connection.
- Answers leave in a later turn of the loop (`broker.net`), so that giving one never changes the group under a method.
- A generation counts, and its members are told their parts, once the assignment is durable in `__consumer_offsets`.

KIPs: 62 (rebalance timeout), 134 (initial delay), 345 (static members may come back late), 394.
"""

from collections.abc import Callable, Mapping

from oncelog.broker.completion import Completion
from oncelog.broker.coordinator.group.deadline import Deadline
from oncelog.broker.coordinator.group.membership import Group, Member
from oncelog.broker.coordinator.group.requests import JoinResult, SyncResult
from oncelog.broker.coordinator.group.states import GroupState
from oncelog.broker.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode, KafkaError

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long the join of a new member is held: whoever is still there asks again. A client that gave up on an answer and
joined anew, under another id, would else be waited for in vain, time and again. Not a setting in Kafka either."""
LogGeneration = Callable[[Group, Mapping[str, bytes]], Completion[None]]

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def append_error(error: Exception) -> ErrorCode:
    """What a member is told when a record could not be logged: the log's codes would send it looking for a topic."""
    if not isinstance(error, KafkaError):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return _APPEND_ERRORS.get(error.code, error.code)


class Rebalancer:
    def __init__(
        self, clock: Clock, scheduler: Scheduler, initial_delay_ms: int, log_generation: LogGeneration
    ) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._initial_delay_ms = initial_delay_ms
        self._log_generation = log_generation

    # --- sessions -----------------------------------------------------------------------------------------------------

    def on_alive(self, group: Group, member: Member) -> None:
        """Heard of a member: its session starts anew."""
        self._expect(group, member, member.session_timeout_ms)

    def _expect(self, group: Group, member: Member, timeout_ms: int) -> None:
        if member.session is None:
            member.session = Deadline(
                self._clock, self._scheduler, lambda: self._on_session_passed(group, member.member_id, member)
            )
        member.session.set(timeout_ms)

    def _on_session_passed(self, group: Group, member_id: str, member: Member) -> None:
        if group.members.get(member_id) is not member:
            return
        if member.is_waiting and not member.is_new:
            self.on_alive(group, member)
        else:
            self.remove(group, member_id)

    def await_pending(self, group: Group, member_id: str, session_timeout_ms: int) -> None:
        """An id has been given out: its owner has a session's time to join with it (KIP-394)."""
        deadline = Deadline(self._clock, self._scheduler, lambda: self.forget_pending(group, member_id))
        group.pending_members[member_id] = deadline
        deadline.set(session_timeout_ms)

    def forget_pending(self, group: Group, member_id: str) -> None:
        if group.remove_pending(member_id):
            self._maybe_complete(group)

    # --- joining ------------------------------------------------------------------------------------------------------

    def await_first_join(self, group: Group, member: Member) -> Completion[JoinResult]:
        """A new member waits for the next generation; a group that collects its first members waits for more."""
        if group.collects is not None:
            group.collects = True
        member.is_new = True
        self._expect(group, member, NEW_MEMBER_TIMEOUT_MS)
        return self.await_join(group, member)

    def await_join(self, group: Group, member: Member) -> Completion[JoinResult]:
        """A member waits for the next generation; begins the rebalance if none is under way."""
        # A member that asks again has given up on its older request, which must not wait for ever.
        member.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        waiter = member.join_waiter = Completion[JoinResult]()
        if not member.is_new:
            self.on_alive(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete(group)
        else:
            self.prepare(group)
        return waiter

    def remove(self, group: Group, member_id: str) -> None:
        """A member is gone; the others share out what it had."""
        member = group.remove(member_id)
        if member is None:
            return
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        member.answer_sync(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare(group)
        else:
            self._maybe_complete(group)

    def prepare(self, group: Group, sync_error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """Begin a rebalance: everybody has to join again."""
        is_first = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE)
        for member in group.members.values():
            if member.sync_waiter is not None:
                self.on_alive(group, member)
                member.answer_sync(SyncResult(sync_error))
        if is_first and self._initial_delay_ms > 0:
            group.collects = False
            delay_ms = self._initial_delay_ms
            left_ms = max(0, group.rebalance_timeout_ms - delay_ms)
            self._wait(group, delay_ms, lambda: self._on_initial_delay(group, left_ms))
        elif group.has_all_joined:
            self._complete(group)
        else:
            self._wait(group, group.rebalance_timeout_ms, lambda: self._complete(group))

    def _on_initial_delay(self, group: Group, left_ms: int) -> None:
        """As long as members keep coming, the first generation waits for more, within the rebalance timeout."""
        if group.collects and left_ms > 0:
            group.collects = False
            delay_ms = min(self._initial_delay_ms, left_ms)
            self._wait(group, delay_ms, lambda: self._on_initial_delay(group, left_ms - delay_ms))
        else:
            self._complete(group)

    def _maybe_complete(self, group: Group) -> None:
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and group.collects is None and group.has_all_joined:
            self._complete(group)

    def _complete(self, group: Group) -> None:
        """Everybody is here, or the time is over: a new generation of whoever joined."""
        group.collects = None
        for member in list(group.members.values()):
            if member.join_waiter is None and member.group_instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, none of them back: until their sessions end they keep their places.
            self._wait(group, group.rebalance_timeout_ms, lambda: self._complete(group))
            return
        self._stop_waiting(group)
        group.generation_id += 1
        if not group.members:
            group.protocol_name = None
            group.move_to(GroupState.EMPTY)
            self._log_generation(group, {})
            return
        group.protocol_name = group.elect_protocol()
        group.move_to(GroupState.COMPLETING_REBALANCE)
        generation_id = group.generation_id
        self._wait(group, group.rebalance_timeout_ms, lambda: self._on_sync_expired(group, generation_id))
        for member in group.members.values():
            member.owes_sync, member.is_new = True, False
            self.on_alive(group, member)
            member.answer_join(group.joined(member.member_id))

    # --- syncing ------------------------------------------------------------------------------------------------------

    def await_sync(self, group: Group, member: Member) -> Completion[SyncResult]:
        """A member waits for its part of the assignment."""
        member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        waiter = member.sync_waiter = Completion[SyncResult]()
        return waiter

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader has assigned: log it, and tell everybody once it is durable."""
        generation_id = group.generation_id

        def on_durable(done: Completion[None]) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
                return
            if done.error is not None:
                self.prepare(group, append_error(done.error))
                return
            group.move_to(GroupState.STABLE)
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"")
                if member.sync_waiter is not None:
                    self.on_alive(group, member)
                    member.answer_sync(group.synced(member))

        self._log_generation(group, assignments).then(on_durable)

    def _on_sync_expired(self, group: Group, generation_id: int) -> None:
        """Members that joined and never asked for their assignment hold up the others: out with them."""
        is_current = group.generation_id == generation_id
        if not is_current or group.state not in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
            return
        missing = [member.member_id for member in group.members.values() if member.owes_sync]
        for member_id in missing:
            group.remove(member_id)
        if missing:
            self.prepare(group)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _wait(self, group: Group, delay_ms: int, on_passed: Callable[[], None]) -> None:
        """A group waits for one thing at a time."""
        self._stop_waiting(group)
        group.rebalance = Deadline(self._clock, self._scheduler, on_passed)
        group.rebalance.set(delay_ms)

    def _stop_waiting(self, group: Group) -> None:
        if group.rebalance is not None:
            group.rebalance.clear()
            group.rebalance = None

    def release(self, group: Group, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """The group is no longer here: who waits is told to join again, or why that is no use."""
        for member in group.members.values():
            member.answer_join(JoinResult(error, member.member_id))
            member.answer_sync(SyncResult(error))
            member.end_session()
        self.stop(group)

    def stop(self, group: Group) -> None:
        """The group is deleted: nothing that it waited for matters any more."""
        self._stop_waiting(group)
        group.collects = None
        for member_id in list(group.pending_members):
            group.remove_pending(member_id)
        group.move_to(GroupState.DEAD)
