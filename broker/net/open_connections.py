"""The connections that are open, and one look at all of them now and then.

Owns: the set, the memory that they share, closing those on which nothing moves (`connections.max.idle.ms`), the counts
for the metrics. Does not own: what a connection does (`broker.net.connection`), who may open one (`broker.net.quotas`).
Invariants
- There is one timer for all connections; an idle one is closed at most one look after its time.
- A connection that waits for the broker (a held Fetch or JoinGroup, a flush) is not idle; one that does not read its
  answers is.
- A connection that was closed here and whose last answer nobody reads is cut off after `_LINGER_MS`.
- Those that hold memory are looked at more often, by a timer of their own, which runs only while there are any.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

from oncelog.broker.net.memory import LOOK_INTERVAL_MS, AnswerMemory, Holder, RequestMemory
from oncelog.broker.ports import MonotonicMs, Timer

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

_LOOKS_A_TERM = 10
_MAX_PAUSE_MS = 10_000
_MIN_PAUSE_MS = 50
_LINGER_MS = 10_000


class Tended(Holder, Protocol):
    """A connection, as the one who looks after it sees it."""

    last_moved_ms: int

    def look(self, monotonic_ms: MonotonicMs) -> None:
        """Note whether anything has moved since the last look."""

    @property
    def is_waiting_for_us(self) -> bool: ...

    @property
    def is_closing(self) -> bool: ...

    def finish(self) -> None:
        """Close once everything is answered."""

    def close_idle(self) -> None: ...

    def abort(self) -> None:
        """End at once; what was not sent is lost."""


class OpenConnections:
    def __init__(self, broker: "Broker") -> None:
        config = broker.config
        self._broker = broker
        self._all: dict[Tended, None] = {}
        self._max_idle_ms = config.get_int("connections.max.idle.ms")
        self._timer: Timer | None = None
        self._is_over = False
        self._emptied: asyncio.Event | None = None
        self._memory_timer: Timer | None = None
        allowance_bytes = config.get_int("socket.request.max.bytes")
        self.requests = RequestMemory(config.get_int("queued.max.request.bytes"), allowance_bytes, self._watch_memory)
        self.answers = AnswerMemory(
            config.get_int("oncelog.unread.answers.max.bytes"), allowance_bytes, self._watch_memory
        )

    def __len__(self) -> int:
        return len(self._all)

    def add(self, connection: Tended) -> None:
        connection.last_moved_ms = self._broker.clock.monotonic_ms()
        self._all[connection] = None
        if self._timer is None and not self._is_over:
            self._timer = self._broker.scheduler.call_later(self._pause_ms, self._look)

    def remove(self, connection: Tended) -> None:
        self._all.pop(connection, None)
        self.requests.forget(connection)
        self.answers.forget(connection)
        if not self._all and self._emptied is not None:
            self._emptied.set()

    def all(self) -> list[Tended]:
        return list(self._all)

    def stop(self) -> None:
        self._is_over = True
        for timer in (self._timer, self._memory_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._memory_timer = None

    async def wait_empty(self, timeout_s: float) -> None:
        """Until all have ended, but no longer than `timeout_s`."""
        if self._all:
            self._emptied = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), timeout_s)

    @property
    def _pause_ms(self) -> int:
        if self._max_idle_ms < 0:
            return _MAX_PAUSE_MS
        return min(max(self._max_idle_ms // _LOOKS_A_TERM, _MIN_PAUSE_MS), _MAX_PAUSE_MS)

    def _look(self) -> None:
        self._timer = None
        monotonic_ms = self._broker.clock.monotonic_ms()
        for connection in self.all():
            connection.look(monotonic_ms)
            idle_ms = monotonic_ms - connection.last_moved_ms
            if connection.is_closing:
                if idle_ms >= _LINGER_MS:
                    connection.abort()
            elif 0 <= self._max_idle_ms <= idle_ms and not connection.is_waiting_for_us:
                self._broker.metrics.connections_closed_idle += 1
                connection.close_idle()
        if self._all and not self._is_over:
            self._timer = self._broker.scheduler.call_later(self._pause_ms, self._look)

    def _watch_memory(self) -> None:
        if self._memory_timer is None and not self._is_over:
            self._memory_timer = self._broker.scheduler.call_later(LOOK_INTERVAL_MS, self._look_at_memory)

    def _look_at_memory(self) -> None:
        self._memory_timer = None
        self.requests.look()
        self.answers.look()
        if not (self.requests.is_empty and self.answers.is_empty):
            self._watch_memory()
