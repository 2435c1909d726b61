"""The timeouts of members of consumer groups.

Owns: for each member a session, and the timeouts within which it must revoke partitions, join, or request its
assignment. Does not own: what happens to a member that exceeds one (`coordinator`).
Invariant: after `forget` no timer of a member runs. Nothing here survives a restart: every member then gets a new
session.
"""

from collections.abc import Callable
from enum import Enum

from oncelog.broker.coordinator.group.engine.deadline import Deadline
from oncelog.broker.turns.ports import Clock, Scheduler


class Wait(Enum):
    """The step that a member must take in time."""

    SESSION = "session"
    REVOCATION = "revocation"
    JOIN = "join"
    """A member of the classic protocol has to rejoin."""
    SYNC = "sync"
    """A member of the classic protocol has joined, and has to request its assignment."""


class Sessions:
    def __init__(self, clock: Clock, scheduler: Scheduler, on_expired: Callable[[str, str], None]) -> None:
        """`on_expired(group_id, member_id)` is called when a member exceeds a timeout."""
        self._clock = clock
        self._scheduler = scheduler
        self._on_expired = on_expired
        self._deadlines: dict[tuple[str, str], dict[Wait, Deadline]] = {}

    def expect(self, group_id: str, member_id: str, wait: Wait, timeout_ms: int) -> None:
        """Expire the member in `timeout_ms` from now."""
        waits = self._deadlines.setdefault((group_id, member_id), {})
        deadline = waits.get(wait)
        if deadline is None:
            deadline = waits[wait] = Deadline(
                self._clock, self._scheduler, lambda: self._on_passed(group_id, member_id, wait)
            )
        deadline.set(timeout_ms)

    def expect_once(self, group_id: str, member_id: str, wait: Wait, timeout_ms: int) -> None:
        """Like `expect`, but does not extend a running timeout."""
        if wait not in self._deadlines.get((group_id, member_id), ()):
            self.expect(group_id, member_id, wait, timeout_ms)

    def done(self, group_id: str, member_id: str, wait: Wait) -> None:
        deadline = self._deadlines.get((group_id, member_id), {}).pop(wait, None)
        if deadline is not None:
            deadline.clear()

    def forget(self, group_id: str, member_id: str) -> None:
        for deadline in self._deadlines.pop((group_id, member_id), {}).values():
            deadline.clear()

    def forget_all(self) -> None:
        for group_id, member_id in list(self._deadlines):
            self.forget(group_id, member_id)

    def _on_passed(self, group_id: str, member_id: str, wait: Wait) -> None:
        self.done(group_id, member_id, wait)
        self._on_expired(group_id, member_id)
