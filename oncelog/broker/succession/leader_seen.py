"""Whether a node that stands by knows the leader, and when it may name it.

Owns: which answers wait for that, and for how long. Does not own: the looks at the lease (`storage.shared.lease`), the
answers (`handlers.standby`), the name in them (`clients`).

Clients ask a node that stands by at the moment at which their leader ends, before any node can know. If it named that
leader, they would try it in vain, and pause for longer than a take-over lasts. So an answer waits for a look at the
lease that began a little later than the request came, and found the owner alive; while the leader ends, or is gone, the
answer waits for the next leader.

A node that has waited in vain for some seconds, for example because it alone is cut off from the tables, reports no
leader until it sees one again: the last one may be gone, and clients would believe it. Meanwhile it answers at once, so
that they ask another node.
"""

from collections import deque
from collections.abc import Callable

from oncelog.broker.storage.shared.tables import NO_NODE, Lease
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler

_NOTICED_MS = 20
"""How long a database takes to notice that the connection of a process has ended."""
_WISH_MS = 2_000
"""How long a wish for another leader counts: one that still has the lease after that stays the leader."""
_LONGEST_MS = 5_000
"""How long an answer waits for the leader; after that the leader counts as unknown."""


class LeaderSeen:
    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._waiting: deque[tuple[MonotonicMs, Completion[None]]] = deque()
        """The answers that wait, with the time of each request, in order."""
        self._is_limited = False
        """Whether the timer for the first of them is running."""
        self._wanted_since: MonotonicMs | None = None
        self._on_known: Callable[[bool], None] = lambda _: None
        self.is_known = True

    def watch(self, on_known: Callable[[bool], None]) -> None:
        """Call `on_known` whenever `is_known` changes, before waiting answers are released."""
        self._on_known = on_known

    def _know(self, is_known: bool) -> None:
        if is_known is not self.is_known:
            self.is_known = is_known
            self._on_known(is_known)

    def when_seen(self) -> Completion[None]:
        """Completes once the leader was seen later than now, or is unknown."""
        if not self.is_known:
            return Completion.of(None)
        seen: Completion[None] = Completion()
        monotonic_ms = self._clock.monotonic_ms()
        self._waiting.append((monotonic_ms, seen))
        self._limit()
        return seen

    def on_look(self, seen: Lease, asked_at_ms: MonotonicMs) -> None:
        """Take the result of a look that began at `asked_at_ms`."""
        if seen.renewed and seen.is_attended and seen.left_ms > 0 and self._stays(seen, asked_at_ms):
            self._know(True)
            self._release(MonotonicMs(asked_at_ms - _NOTICED_MS))

    def _stays(self, seen: Lease, asked_at_ms: MonotonicMs) -> bool:
        if seen.wanted in (NO_NODE, seen.node_id):
            self._wanted_since = None
        elif self._wanted_since is None:
            self._wanted_since = asked_at_ms
        return self._wanted_since is None or asked_at_ms - self._wanted_since > _WISH_MS

    def release(self) -> None:
        """Release all waiting answers: this node leads, or does not look any more."""
        self._release(self._clock.monotonic_ms())

    def forget(self) -> None:
        """Report no leader from now on, and release all waiting answers."""
        self._know(False)
        self.release()

    def _release(self, until_ms: MonotonicMs) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= until_ms:
            waiting.popleft()[1].complete(None)

    def _limit(self) -> None:
        if self._waiting and not self._is_limited:
            self._is_limited = True
            left_ms = self._waiting[0][0] + _LONGEST_MS - self._clock.monotonic_ms()
            self._scheduler.call_later(left_ms, self._check_limit)

    def _check_limit(self) -> None:
        self._is_limited = False
        if self._waiting and self._waiting[0][0] + _LONGEST_MS <= self._clock.monotonic_ms():
            self.forget()
        self._limit()
