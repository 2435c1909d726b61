"""The open connections, and one periodic check of all of them.

Owns: the set, the memory that they share, closing idle ones (`connections.max.idle.ms`), the counts for the metrics.
Does not own: what a connection does (`broker.net.connection`), which may be opened (`broker.net.quotas`).
Invariants
- There is one timer for all connections; an idle one is closed at most one check after its timeout.
- A connection that waits for the broker (a held Fetch or JoinGroup, a flush) is not idle; one that does not read its
  responses is.
- A connection that this side closed and whose last response is not read is aborted after `_LINGER_MS`.
- Those that hold memory are checked more often, by a separate timer, which runs only while there are any.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.net.memory import CHECK_INTERVAL_MS, AnswerMemory, Holder, RequestMemory
from oncelog.broker.system.limits import return_memory
from oncelog.broker.turns.ports import MonotonicMs, Timer

if TYPE_CHECKING:
    from oncelog.broker.requests.parts import Broker

_CHECKS_PER_TIMEOUT = 10
_MAX_PAUSE_MS = 10_000
_MIN_PAUSE_MS = 50
_LINGER_MS = 10_000
_RETURNED_BYTES = 64 << 20
"""Once answers have held so much, what they leave free is returned to the system: the allocator would keep it between
what is still in use. Measured: 20 to 60 ms, in a thread."""


def _ignore(_error: Exception | None) -> None:
    """Ignore the outcome: nothing depends on it."""


class TrackedConnection(Holder, Protocol):
    """A connection as its supervisor sees it."""

    broker: "Broker"
    last_moved_ms: int

    def check_activity(self, monotonic_ms: MonotonicMs) -> None:
        """Record whether any bytes have moved since the last check."""

    @property
    def is_waiting_for_us(self) -> bool: ...

    @property
    def is_closing(self) -> bool: ...

    def finish(self) -> None:
        """Close once all started requests are answered."""

    def close_idle(self) -> None: ...

    def abort(self) -> None:
        """End at once; unsent bytes are lost."""


class OpenConnections:
    def __init__(self, broker: "Broker", busy_poll: BusyPoll | None = None) -> None:
        config = broker.config
        self.busy_poll = busy_poll
        """The busy poll; without one the loop sleeps whenever there is nothing to do."""
        self._broker = broker
        self._all: dict[TrackedConnection, None] = {}
        self._max_idle_ms = config.get_int("connections.max.idle.ms")
        self._timer: Timer | None = None
        self._is_over = False
        self._emptied: asyncio.Event | None = None
        self._memory_timer: Timer | None = None
        allowance_bytes = config.get_int("socket.request.max.bytes")
        self.requests = RequestMemory(
            config.get_int("queued.max.request.bytes"), allowance_bytes, self._start_memory_checks
        )
        self.answers = AnswerMemory(
            config.get_int("oncelog.unread.answers.max.bytes"), allowance_bytes, self._start_memory_checks
        )

    def __len__(self) -> int:
        return len(self._all)

    def change_broker(self, broker: "Broker") -> None:
        self._broker = broker
        for connection in self._all:
            connection.broker = broker

    def add(self, connection: TrackedConnection) -> None:
        connection.last_moved_ms = self._broker.clock.monotonic_ms()
        self._all[connection] = None
        if self._timer is None and not self._is_over:
            self._timer = self._broker.scheduler.call_later(self._pause_ms, self._check)

    def remove(self, connection: TrackedConnection) -> None:
        self._all.pop(connection, None)
        self.requests.forget(connection)
        self.answers.forget(connection)
        if not self._all and self._emptied is not None:
            self._emptied.set()

    def all(self) -> list[TrackedConnection]:
        return list(self._all)

    def stop(self) -> None:
        self._is_over = True
        for timer in (self._timer, self._memory_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._memory_timer = None

    async def wait_empty(self, timeout_s: float) -> None:
        """Wait until all have ended, but no longer than `timeout_s`."""
        if self._all:
            self._emptied = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), timeout_s)

    @property
    def _pause_ms(self) -> int:
        if self._max_idle_ms < 0:
            return _MAX_PAUSE_MS
        return min(max(self._max_idle_ms // _CHECKS_PER_TIMEOUT, _MIN_PAUSE_MS), _MAX_PAUSE_MS)

    def _check(self) -> None:
        self._timer = None
        monotonic_ms = self._broker.clock.monotonic_ms()
        for connection in self.all():
            connection.check_activity(monotonic_ms)
            idle_ms = monotonic_ms - connection.last_moved_ms
            if connection.is_closing:
                if idle_ms >= _LINGER_MS:
                    connection.abort()
            elif 0 <= self._max_idle_ms <= idle_ms and not connection.is_waiting_for_us:
                self._broker.metrics.connections_closed_idle += 1
                connection.close_idle()
        if self._all and not self._is_over:
            self._timer = self._broker.scheduler.call_later(self._pause_ms, self._check)

    def _start_memory_checks(self) -> None:
        if self._memory_timer is None and not self._is_over:
            self._memory_timer = self._broker.scheduler.call_later(CHECK_INTERVAL_MS, self._check_memory)

    def _check_memory(self) -> None:
        self._memory_timer = None
        self.requests.check()
        self.answers.check()
        if not (self.requests.is_empty and self.answers.is_empty):
            self._start_memory_checks()
        elif self.answers.peak_bytes >= _RETURNED_BYTES:
            self.answers.peak_bytes = 0
            self._broker.scheduler.run_beside(return_memory, _ignore)
