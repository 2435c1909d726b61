"""A task that reports every so often, from a start to a stop.

Owns: the interval, and the end of the task. Does not own: what is reported.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


class Periodic:
    def __init__(self, report: Callable[[], Awaitable[None]], interval_ms: int, name: str) -> None:
        self._report = report
        self._interval_s = interval_ms / 1000
        self._name = name
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def stop(self) -> bool:
        """Stop the task, and return whether it was running."""
        task, self._task = self._task, None
        if task is None:
            return False
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return True

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            await self._report()
