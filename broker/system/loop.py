"""The running event loop as the Scheduler port, with one thread beside it.

Invariant: functions given to `run_in_thread` run one after the other, in the order given, and `done` runs on the loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class LoopScheduler:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread_name: str) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread_name)

    def call_soon(self, function: Callable[[], None]) -> None:
        self._loop.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, function)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        def run() -> None:
            error: Exception | None = None
            try:
                function()
            except Exception as raised:  # handed to `done`, which decides
                error = raised
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, error)

        self._thread.submit(run)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
