"""Runs coroutines for those who know no loop: a driver of a database, for a store.

Owns: the tasks in flight. Does not own: what they do.
"""

from asyncio import Task, get_running_loop, run
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from oncelog.broker.turns.completion import Completion

T = TypeVar("T")


class LoopCoroutines:
    def __init__(self) -> None:
        self._tasks: set[Task[Any]] = set()
        """The loop itself holds them only weakly."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Completion[T]:
        """On this event loop. Fails with what it raises."""
        completion: Completion[T] = Completion()

        def on_done(task: Task[T]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return  # the loop ends, and nobody waits any more
            error = task.exception()
            if isinstance(error, Exception):
                completion.fail(error)
            elif error is None:
                completion.complete(task.result())

        task = get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(on_done)
        return completion

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """On a loop of its own in a thread, while this one stands still. Raises what it raises."""
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(run, coroutine).result()
