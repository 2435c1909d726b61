"""Time that can be advanced: the machine's clocks and timers, and how far they were moved.

Owns: a broker's pending timers. Invariants
- `advance` is equivalent to a sleep of the machine: everything due has run, once, in order of its time.
- Only the wall clock can be set back; the monotonic clock and its timers never go back.
"""

from collections.abc import Callable
from itertools import count

from oncelog.broker.turns.ports import Clock, MonotonicMs, Scheduler, Timer, WallMs


class _Waiting:
    """A pending timer; serves as Timer."""

    __slots__ = ("_forget", "below", "due_ms", "function", "order")

    def __init__(self, order: int, due_ms: float, function: Callable[[], None], forget: Callable[[int], None]) -> None:
        self.order = order
        self.due_ms = due_ms
        self.function = function
        self.below: Timer | None = None
        self._forget = forget

    def cancel(self) -> None:
        if self.below is not None:
            self.below.cancel()
        self._forget(self.order)


class MovableTime:
    """A Clock and a Scheduler whose time a test can move."""

    def __init__(self, clock: Clock, scheduler: Scheduler) -> None:
        self._clock = clock
        self._scheduler = scheduler
        self._ahead_ms = 0
        self._wall_offset_ms = 0
        self._order = count()
        self._waiting: dict[int, _Waiting] = {}

    def wall_ms(self) -> WallMs:
        return WallMs(max(0, self._clock.wall_ms() + self._ahead_ms + self._wall_offset_ms))

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self._clock.monotonic_ms() + self._ahead_ms)

    def advance(self, delay_ms: int) -> None:
        """Let `delay_ms` pass at once, as if the machine had slept: due timers run now, once, in order."""
        self._ahead_ms += delay_ms
        monotonic_ms = self.monotonic_ms()
        waiting = sorted(self._waiting.values(), key=lambda each: (each.due_ms, each.order))
        for each in waiting:
            if each.below is not None:
                each.below.cancel()
            self._arm(each)
        for each in waiting:
            # A timer that ran may have cancelled another.
            if each.due_ms <= monotonic_ms and each.order in self._waiting:
                each.cancel()
                each.function()

    def jump_wall(self, offset_ms: int) -> None:
        """Set the wall clock, as an operator or NTP would: timers are not affected."""
        self._wall_offset_ms += offset_ms

    def call_soon(self, function: Callable[[], None]) -> None:
        self._scheduler.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> Timer:
        due_ms = self.monotonic_ms() + max(0.0, delay_ms)
        waiting = _Waiting(next(self._order), due_ms, function, self._forget)
        self._waiting[waiting.order] = waiting
        self._arm(waiting)
        return waiting

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._scheduler.run_beside(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._scheduler.run_in_thread(function, done)

    def _arm(self, waiting: _Waiting) -> None:
        def expire() -> None:
            del self._waiting[waiting.order]
            waiting.function()

        waiting.below = self._scheduler.call_later(max(0.0, waiting.due_ms - self.monotonic_ms()), expire)

    def _forget(self, order: int) -> None:
        self._waiting.pop(order, None)
