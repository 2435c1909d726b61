"""Rebalances of classic groups: from the first join to the durable assignment of a new generation.

Owns: the transitions between states, sessions, who is waited for and how long. Does not own: what a group is
(`membership`), the checks of requests (`coordinator`).
Invariants
- A member that joins waits until the rebalance ends; one that does not rejoin in time is removed.
- A member whose request is held here is alive: it cannot send heartbeats on that connection.
- Responses are sent in a later turn of the loop (`broker.net`), so completing one never changes the group in a method.
- A generation takes effect, and its members receive their assignments, once it is durable in `__consumer_offsets`.

KIPs: 62 (rebalance timeout), 134 (initial delay), 345 (static members may return late), 394.
"""

from collections.abc import Callable, Mapping

from oncelog.broker.coordinator.group.classic.membership import Group, Member
from oncelog.broker.coordinator.group.classic.states import GroupState
from oncelog.broker.coordinator.group.engine.deadline import Deadline
from oncelog.broker.coordinator.group.engine.requests import JoinResult, SyncResult
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.protocol.errors import ErrorCode, KafkaError

NEW_MEMBER_TIMEOUT_MS = 300_000
"""How long a new member's join is held; a live client then retries. Otherwise a client that gave up and joined again
under another id would be waited for in vain, over and over. Not a setting in Kafka either."""
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
    """Return the error for members when a record could not be logged: the log's own codes would mislead them."""
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
        """Restart the session of a member that is alive."""
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
        """Give the client to which a member id was returned one session timeout to join with it (KIP-394)."""
        deadline = Deadline(self._clock, self._scheduler, lambda: self.forget_pending(group, member_id))
        group.pending_members[member_id] = deadline
        deadline.set(session_timeout_ms)

    def forget_pending(self, group: Group, member_id: str) -> None:
        if group.remove_pending(member_id):
            self._maybe_complete(group)

    # --- joining ------------------------------------------------------------------------------------------------------

    def await_first_join(self, group: Group, member: Member) -> Completion[JoinResult]:
        """Let a new member wait for the next generation; a group that collects its first members waits for more."""
        if group.collects is not None:
            group.collects = True
        member.is_new = True
        self._expect(group, member, NEW_MEMBER_TIMEOUT_MS)
        return self.await_join(group, member)

    def await_join(self, group: Group, member: Member) -> Completion[JoinResult]:
        """Let a member wait for the next generation; start a rebalance if none is running."""
        # A member that retries has given up on its older request, which must not wait for ever.
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
        """Remove a member that is gone; the others take over its partitions."""
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
        """Begin a rebalance: every member has to rejoin."""
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
        """Extend the initial delay as long as members keep joining, within the rebalance timeout."""
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
        """Form a new generation of the members that have rejoined: all of them, or those that did so in time."""
        group.collects = None
        for member in list(group.members.values()):
            if member.join_waiter is None and member.group_instance_id is None:
                group.remove(member.member_id)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, none of them back: they keep their places until their sessions end.
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
            member.answer_join(group.join_result(member.member_id))

    # --- syncing ------------------------------------------------------------------------------------------------------

    def await_sync(self, group: Group, member: Member) -> Completion[SyncResult]:
        """Let a member wait for its assignment."""
        member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        waiter = member.sync_waiter = Completion[SyncResult]()
        return waiter

    def assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """Log the leader's assignment, and respond to all members once it is durable."""
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
                    member.answer_sync(group.sync_result(member))

        self._log_generation(group, assignments).then(on_durable)

    def _on_sync_expired(self, group: Group, generation_id: int) -> None:
        """Remove members that joined but never requested their assignment: they block the others."""
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
        """Start the group's only deadline: it waits for one thing at a time."""
        self._stop_waiting(group)
        group.rebalance = Deadline(self._clock, self._scheduler, on_passed)
        group.rebalance.set(delay_ms)

    def _stop_waiting(self, group: Group) -> None:
        if group.rebalance is not None:
            group.rebalance.clear()
            group.rebalance = None

    def release(self, group: Group, error: ErrorCode = ErrorCode.REBALANCE_IN_PROGRESS) -> None:
        """Fail the waiters of a classic group that is gone, so that they rejoin or look up the coordinator."""
        for member in group.members.values():
            member.answer_join(JoinResult(error, member.member_id))
            member.answer_sync(SyncResult(error))
            member.end_session()
        self.stop(group)

    def stop(self, group: Group) -> None:
        """Stop every wait of a group that is deleted."""
        self._stop_waiting(group)
        group.collects = None
        for member_id in list(group.pending_members):
            group.remove_pending(member_id)
        group.move_to(GroupState.DEAD)
