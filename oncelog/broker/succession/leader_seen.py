"""When a node that stands by may say who leads.

Owns: which answers wait for that, and for how long. Does not own: the looks at the lease (`storage.shared.lease`), the
answers (`handlers.standby`).

Clients ask a node that stands by in the moment in which their leader ends, before anybody else can know: told of that
leader they would try it in vain, and pause for longer than a take-over lasts. So an answer waits for a look at the
lease that has begun a little later than the request came, and has found its owner there; while the leader ends, or is
gone, for the next one.
"""

from collections import deque

from oncelog.broker.storage.shared.tables import NOBODY, Lease
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler

_NOTICED_MS = 20
"""After so long a database knows that the connection of a process has ended."""
_WISH_MS = 2_000
"""A leader that is to give the lease away and has it still after so long stays."""
_LONGEST_MS = 5_000
"""Then it is answered by what was known last, as while the database is away."""


class LeaderSeen:
    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._waiting: deque[tuple[MonotonicMs, Completion[None]]] = deque()
        """In the order in which they came."""
        self._wanted_since: MonotonicMs | None = None

    def when_seen(self) -> Completion[None]:
        """Completes once the leader was seen later than now, or in vain after a while."""
        seen: Completion[None] = Completion()
        monotonic_ms = self._clock.monotonic_ms()
        if not self._waiting:
            self._scheduler.call_later(_LONGEST_MS, self._give_up)
        self._waiting.append((monotonic_ms, seen))
        return seen

    def on_look(self, seen: Lease, asked_at_ms: MonotonicMs) -> None:
        """A look that began then has found this."""
        if seen.renewed and seen.is_attended and seen.left_ms > 0 and self._stays(seen, asked_at_ms):
            self._release(MonotonicMs(asked_at_ms - _NOTICED_MS))

    def _stays(self, seen: Lease, asked_at_ms: MonotonicMs) -> bool:
        if seen.wanted in (NOBODY, seen.node_id):
            self._wanted_since = None
        elif self._wanted_since is None:
            self._wanted_since = asked_at_ms
        return self._wanted_since is None or asked_at_ms - self._wanted_since > _WISH_MS

    def release(self) -> None:
        """It is known who leads from now on."""
        self._release(self._clock.monotonic_ms())

    def _release(self, until_ms: MonotonicMs) -> None:
        waiting = self._waiting
        while waiting and waiting[0][0] <= until_ms:
            waiting.popleft()[1].complete(None)

    def _give_up(self) -> None:
        monotonic_ms = self._clock.monotonic_ms()
        self._release(MonotonicMs(monotonic_ms - _LONGEST_MS))
        if self._waiting:
            left_ms = self._waiting[0][0] + _LONGEST_MS - monotonic_ms
            self._scheduler.call_later(left_ms, self._give_up)
