"""Runs coroutines for those who know no loop: a driver of a database, for a store.

Owns: the tasks in flight. Does not own: what they do.
"""

from asyncio import Runner, Task, create_task, get_running_loop, run, wait
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
        """Run the coroutine on this event loop. Fails with the exception that it raises."""
        completion: Completion[T] = Completion()

        def on_done(task: Task[T]) -> None:
            self._tasks.discard(task)
            if task.cancelled():
                return  # the loop ends, and nothing waits any more
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


class BlockingCoroutines:
    """Runs each coroutine to its end, for commands, which have nothing else to do meanwhile."""

    def __init__(self) -> None:
        self._runner = Runner()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Completion[T]:
        """Run the coroutine to its end. The completion is done: completed, or failed with the exception."""
        task = self._runner.run(_ended(coroutine))
        error = task.exception()
        return Completion.of(task.result()) if error is None else Completion.failed(error)  # type: ignore[arg-type]

    def run_now(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Raises what it raises."""
        return self._runner.run(coroutine)

    def close(self) -> None:
        self._runner.close()


async def _ended(coroutine: Coroutine[Any, Any, T]) -> Task[T]:
    task = create_task(coroutine)
    await wait([task])
    return task
