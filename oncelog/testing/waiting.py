"""Waiting for what a service does beside its test: a look, a pause, a look again, until a time is over.

Owns: the pauses, and how an abandoned wait is given up. Does not own: what is looked at (`broker`).
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

__tracebackhide__ = True
P = ParamSpec("P")
T = TypeVar("T")
WAIT_S = 30.0
"""How long a test waits if it does not say so: what comes is returned at once, so only a failure takes this long."""
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1

_abandoned: ContextVar[threading.Event | None] = ContextVar("abandoned", default=None)
"""An event in the thread of an asynchronous call, set once its result is not awaited any more."""


def wait_until(look: Callable[[], T | None], timeout_s: float, what_lacks: Callable[[], str]) -> T:
    """Return what `look` finds as soon as it is not None; there is one look at least. Raises TimeoutError with
    `what_lacks`."""
    give_up_s = time.monotonic() + timeout_s
    abandoned = _abandoned.get() or threading.Event()
    pause_s = _FIRST_PAUSE_S
    while True:
        found = look()
        if found is not None:
            return found
        left_s = give_up_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError(f"after {timeout_s:g} s {what_lacks()}")
        if abandoned.wait(min(pause_s, left_s)):
            raise asyncio.CancelledError
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a blocking function in a thread of its own, so that no number of waits keeps another call from running. If
    this is cancelled, `wait_until` ends there."""
    abandoned = threading.Event()
    context = copy_context()
    context.run(_abandoned.set, abandoned)
    with_one = ThreadPoolExecutor(1, "oncelog-testing")
    future = with_one.submit(context.run, lambda: function(*args, **kwargs))
    with_one.shutdown(wait=False)
    try:
        return await asyncio.wrap_future(future)
    finally:
        abandoned.set()
