"""A deadline on the monotonic clock that is cheap to postpone, for sessions and rebalances.

Owns: one timer, rearmed only when it fires too early or would fire too late, so that a heartbeat costs no timer.
Invariant: `on_passed` is called at most once for each `set`, never before the deadline, never after `clear`.
"""

from collections.abc import Callable

from oncelog.broker.turns.ports import Clock, Scheduler, Timer


class Deadline:
    __slots__ = ("_armed_for_ms", "_clock", "_due_ms", "_on_passed", "_scheduler", "_timer")

    def __init__(self, clock: Clock, scheduler: Scheduler, on_passed: Callable[[], None]) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._on_passed = on_passed
        self._due_ms: int | None = None
        self._armed_for_ms = 0
        self._timer: Timer | None = None

    def set(self, delay_ms: int) -> None:
        """Pass in `delay_ms` from now."""
        due_ms = self._due_ms = self._clock.monotonic_ms() + delay_ms
        if self._timer is None:
            self._arm(due_ms, delay_ms)
        elif due_ms < self._armed_for_ms:
            self._timer.cancel()
            self._arm(due_ms, delay_ms)

    def clear(self) -> None:
        """Cancel the deadline."""
        self._due_ms = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due_ms: int, delay_ms: int) -> None:
        self._armed_for_ms = due_ms
        self._timer = self._scheduler.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        due_ms = self._due_ms
        if due_ms is None:
            return
        left_ms = due_ms - self._clock.monotonic_ms()
        if left_ms > 0:
            self._arm(due_ms, left_ms)
            return
        self._due_ms = None
        self._on_passed()
