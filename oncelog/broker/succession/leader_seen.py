"""When a node that stands by may say who leads, and whether it knows.

Owns: which answers wait for that, and for how long. Does not own: the looks at the lease (`storage.shared.lease`), the
answers (`handlers.standby`), the name in them (`clients`).

Clients ask a node that stands by in the moment in which their leader ends, before anybody else can know: told of that
leader they would try it in vain, and pause for longer than a take-over lasts. So an answer waits for a look at the
lease that has begun a little later than the request came, and has found its owner there; while the leader ends, or is
gone, for the next one.

A node that has waited in vain for some seconds, cut off from the tables alone, say, knows nobody who leads until it has
seen one again: whoever it named might be long gone, and clients would believe it. Meanwhile it answers at once, so that
they ask another node.
"""

from collections import deque
from collections.abc import Callable

from oncelog.broker.storage.shared.tables import NOBODY, Lease
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler

_NOTICED_MS = 20
"""After so long a database knows that the connection of a process has ended."""
_WISH_MS = 2_000
"""A leader that is to give the lease away and has it still after so long stays."""
_LONGEST_MS = 5_000
"""Then it is not known any more."""


class LeaderSeen:
    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._waiting: deque[tuple[MonotonicMs, Completion[None]]] = deque()
        """In the order in which they came."""
        self._is_limited = False
        """A look at the first of them is to come."""
        self._wanted_since: MonotonicMs | None = None
        self._on_known: Callable[[bool], None] = lambda _: None
        self.is_known = True

    def watch(self, on_known: Callable[[bool], None]) -> None:
        """Call it whenever `is_known` changes, before the answers that have waited."""
        self._on_known = on_known

    def _know(self, is_known: bool) -> None:
        if is_known is not self.is_known:
            self.is_known = is_known
            self._on_known(is_known)

    def when_seen(self) -> Completion[None]:
        """Completes once the leader was seen later than now, or is not known."""
        if not self.is_known:
            return Completion.of(None)
        seen: Completion[None] = Completion()
        monotonic_ms = self._clock.monotonic_ms()
        self._waiting.append((monotonic_ms, seen))
        self._limit()
        return seen

    def on_look(self, seen: Lease, asked_at_ms: MonotonicMs) -> None:
        """A look that began then has found this."""
        if seen.renewed and seen.is_attended and seen.left_ms > 0 and self._stays(seen, asked_at_ms):
            self._know(True)
            self._release(MonotonicMs(asked_at_ms - _NOTICED_MS))

    def _stays(self, seen: Lease, asked_at_ms: MonotonicMs) -> bool:
        if seen.wanted in (NOBODY, seen.node_id):
            self._wanted_since = None
        elif self._wanted_since is None:
            self._wanted_since = asked_at_ms
        return self._wanted_since is None or asked_at_ms - self._wanted_since > _WISH_MS

    def release(self) -> None:
        """Answer at once those who have waited: this node leads, or does not look any more."""
        self._release(self._clock.monotonic_ms())

    def forget(self) -> None:
        """It is not known who leads."""
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
