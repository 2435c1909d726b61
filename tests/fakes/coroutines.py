"""Coroutines beside a scheduler that a test runs: each runs to its end in one turn, and the turn waits."""

from asyncio import new_event_loop
from collections.abc import Coroutine
from typing import Any, TypeVar

from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Scheduler

T = TypeVar("T")


class WaitingCoroutines:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._loop = new_event_loop()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Completion[T]:
        completion: Completion[T] = Completion()

        def run() -> None:
            try:
                value = self.run_now(coroutine)
            except OSError as error:
                completion.fail(error)
            else:
                completion.complete(value)

        self._scheduler.call_soon(run)
        return completion

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(coroutine)
