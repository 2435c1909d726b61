"""A scheduler that runs only when a test runs it, and a clock that stands until moved."""

from collections.abc import Callable

from oncelog.broker.turns.ports import MonotonicMs, WallMs
from tests.fakes.budget import Budget


class ManualTimer:
    def __init__(self, due_ms: float, function: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.function = function
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualScheduler:
    """`run` empties the queue of this turn and the next ones; threads run, one after the other, in `run_thread`. Its
    budget is for all that it ever runs, and for each call: a caller may run it until something happens."""

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget or Budget()
        self.queue: list[Callable[[], None]] = []
        self.threads: list[tuple[Callable[[], None], Callable[[Exception | None], None]]] = []
        self.timers: list[ManualTimer] = []
        self.threads_run_at_once = True

    def call_soon(self, function: Callable[[], None]) -> None:
        self.queue.append(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(delay_ms, function)
        self.timers.append(timer)
        return timer

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.run_in_thread(function, done)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self.threads.append((function, done))

    def run_thread(self) -> None:
        """Run the oldest function given to a thread; its `done` is called in the next `run`."""
        function, done = self.threads.pop(0)
        self._budget.spend(function)
        error: Exception | None = None
        try:
            function()
        except OSError as raised:
            error = raised
        self.queue.append(lambda: done(error))

    def run_one(self) -> None:
        """One step: a function of the loop, or else one of the thread's."""
        if self.queue:
            self._run_next()
        elif self.threads:
            self.run_thread()

    def _run_next(self) -> None:
        function = self.queue.pop(0)
        self._budget.spend(function)
        function()

    def run_timers(self) -> None:
        """Queue what waits for a time, whatever the time."""
        self._budget.spend(self.run_timers)
        timers, self.timers = self.timers, []
        self.queue += [timer.function for timer in timers if not timer.is_cancelled]

    def run(self) -> None:
        self._budget.spend(self.run)
        while self.queue or (self.threads and self.threads_run_at_once):
            self.run_one()


class ManualClock:
    """`time_ms` moves both clocks, `wall_offset_ms` the wall clock alone."""

    def __init__(self, wall_ms: int = 1_000_000) -> None:
        self.time_ms = wall_ms
        self.wall_offset_ms = 0

    def wall_ms(self) -> WallMs:
        return WallMs(max(0, self.time_ms + self.wall_offset_ms))

    def monotonic_ms(self) -> MonotonicMs:
        return MonotonicMs(self.time_ms)
