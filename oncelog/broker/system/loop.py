"""The running event loop as the Scheduler port, with a thread; and short garbage collections, for its sake.

A full collection takes 0.1 to 0.4 µs per object that it visits, in one turn: 100 ms and more for 100,000 groups,
repeatedly while they grow. Objects that have survived nearly always live long, so once there are enough of them, they
are frozen: no later collection visits them.

Invariants
- Functions passed to `run_in_thread` run sequentially, in the order given, and `done` runs on the loop.
- Between two freezes, a full collection visits `_MOST_SURVIVORS` objects and those created since the last one, some
  twenty-three thousand.
- A frozen object is freed when it is dropped, unless it is in a cycle; that stays for ever. So objects that may live
  long break their cycles when they end (tests/unit/broker/test_garbage.py), and a broker that does not grow freezes no
  more.

Since Python 3.14 the collector visits old objects incrementally, and never calls that generation 2.
"""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_READERS = 4
_FULL = 2
_MOST_SURVIVORS = 10_000
"""The most objects that a short collection leaves. Measured: 1 to 4 ms."""
_THRESHOLDS = (700, 10, 2)
"""The thresholds of collections: Python's own before 3.13, except that full ones come after 23,000 new objects, not
85,000."""


class LoopScheduler:
    def __init__(self, loop: asyncio.AbstractEventLoop, thread_name: str) -> None:
        self._loop = loop
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=thread_name)
        self._beside = ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="reader")

    def call_soon(self, function: Callable[[], None]) -> None:
        self._loop.call_soon(function)

    def call_later(self, delay_ms: float, function: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(max(0.0, delay_ms) / 1000, function)

    def run_in_thread(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._submit(self._thread, function, done)

    def run_beside(self, function: Callable[[], None], done: Callable[[Exception | None], None]) -> None:
        self._submit(self._beside, function, done)

    def _submit(
        self, threads: ThreadPoolExecutor, function: Callable[[], None], done: Callable[[Exception | None], None]
    ) -> None:
        def run() -> None:
            error = error_of(function)
            if not self._loop.is_closed():
                self._loop.call_soon_threadsafe(done, error)

        threads.submit(run)

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        self._beside.shutdown(wait=True)


def error_of(function: Callable[[], None]) -> Exception | None:
    """Return the error that the function raises, for the `done` of a Scheduler, which decides about it; None if it
    raises none."""
    try:
        function()
    except Exception as raised:
        return raised
    return None


def keep_collections_short() -> None:
    """Keep collections short for all objects, existing and future."""
    gc.freeze()
    gc.collect()  # frees nothing: full collections wait for a quarter more objects than the last one visited
    gc.set_threshold(*_THRESHOLDS)
    if on_collection not in gc.callbacks:
        gc.callbacks.append(on_collection)


def on_collection(phase: str, info: dict[str, int]) -> None:
    if phase == "stop" and info["generation"] == _FULL and len(gc.get_objects(_FULL)) > _MOST_SURVIVORS:
        gc.freeze()
