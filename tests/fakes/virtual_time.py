"""A clock and an event loop in virtual time: a test lets time pass, and what is due happens in order.

Invariants: functions of one turn run in the order given; timers run at their time, earlier ones first, those of the
same time in the order in which they were set; "threads" run between two turns.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count

from oncelog.broker.turns.ports import MonotonicMs, WallMs
from tests.fakes.budget import Budget


class VirtualTimer:
    """Forgets its function once it is over, as uvloop's do."""

    __slots__ = ("function", "is_cancelled")

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.function = _do_nothing


class VirtualTime:
    """Serves as Clock and Scheduler; the wall clock and the monotonic clock advance together, unless moved apart."""

    def __init__(self, wall_ms: int = 1_700_000_000_000, budget: Budget | None = None) -> None:
        """`budget` is for each moment."""
        self._monotonic_ms = 0
        self._budget = budget or Budget()
        self.wall_offset_ms = wall_ms
        self._turn: list[Callable[[], None]] = []
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._order = count()
        self.is_beside = False
        """Whether the code that runs now would run in a thread, beside the loop."""

    def wall_ms(self) -> WallMs:
        return WallMs(max(0, self._monotonic_ms + self.wall_offset_ms))

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self._monotonic_ms)

    def call_soon(self, function: Callable[[], None]) -> None:
        self._turn.append(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> VirtualTimer:
        timer = VirtualTimer(function)
        heappush(self._timers, (self._monotonic_ms + max(0, round(delay_ms)), next(self._order), timer))
        return timer

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            error: Exception | None = None
            self.is_beside = True
            try:
                function()
            except OSError as raised:
                error = raised
            finally:
                self.is_beside = False
            self.call_soon(lambda: done(error))

        self.call_soon(run)

    @property
    def timer_count(self) -> int:
        """Timers that are still to come."""
        return sum(not timer.is_cancelled for _, _, timer in self._timers)

    def turn(self) -> bool:
        """Run one turn; whether there was one to run."""
        turn, self._turn = self._turn, []
        for function in turn:
            function()
        return bool(turn)

    def settle(self) -> None:
        """Run turns until there is nothing left to do at this very moment."""
        self._budget.refill()
        while True:
            if self._turn:
                self._budget.spend(self._turn)
                self.turn()
            elif self._timers and self._timers[0][0] <= self._monotonic_ms:
                self._budget.spend(self._timers[0][2].function)
                self._fire()
            else:
                return

    def advance(self, delay_ms: int) -> None:
        """Let time pass, stopping at each timer on the way."""
        self.settle()
        until_ms = self._monotonic_ms + delay_ms
        while self._timers and self._timers[0][0] <= until_ms:
            self._monotonic_ms = max(self._monotonic_ms, self._timers[0][0])
            self.settle()
        self._monotonic_ms = until_ms

    def leap(self, delay_ms: int) -> None:
        """Let time pass in which nothing runs, as of a process that stood still: every timer is late."""
        self._monotonic_ms += delay_ms
        self.settle()

    def _fire(self) -> None:
        _, _, timer = heappop(self._timers)
        function, timer.function = timer.function, _do_nothing
        function()


def _do_nothing() -> None:
    """The function of a timer that is over."""
