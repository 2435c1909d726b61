"""A scheduler for one of several brokers that a process is, one after the other.

Invariant: after `end` nothing that was scheduled runs any more, and nothing is scheduled: what a broker has left is
forgotten with it. Functions in threads run to their end.
"""

from collections.abc import Callable

from oncelog.broker.turns.ports import Scheduler, Timer


class EndingScheduler:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._has_ended = False

    def end(self) -> None:
        self._has_ended = True

    def _unless_ended(self, function: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            if not self._has_ended:
                function()

        return run

    def call_soon(self, function: Callable[[], None]) -> None:
        self._scheduler.call_soon(self._unless_ended(function))

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> Timer:
        return self._scheduler.call_later(delay_ms, self._unless_ended(function))

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._scheduler.run_in_thread(function, self._unless_ended_with(done))

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._scheduler.run_beside(function, self._unless_ended_with(done))

    def _unless_ended_with(self, done: Callable[[Exception | None], None]) -> Callable[[Exception | None], None]:
        def run(error: Exception | None) -> None:
            if not self._has_ended:
                done(error)

        return run
