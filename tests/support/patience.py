"""How long a test waits, at most, for what must come: long enough that only what hangs is ended.

On a machine that is ten times as busy as it has cores, half a minute passes where a test alone takes a second. No test
waits for these where all is well. tests/test_tidy.py has no shorter deadline in the tests.
"""

import asyncio
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 300
"""Less than the `timeout` of a whole test in pyproject.toml, so that the wait that hangs is the one that is named."""

PATIENCE_MS = PATIENCE_S * 1_000

GIVES_UP_MS = 3_000
"""The deadline of a client that a test lets pass: a hundred times what must succeed before it, such as the opening."""

SHORT_OF_DEFAULTS_S = 50
"""The limit for a call with a deadline, whose client would return in the end even if it ignored the deadline: the
shortest default after which a call gives up is a minute."""

SLOW_TIMEOUT_S = 1_800
"""The time limit of an exhaustive test; that of the others is `timeout` in pyproject.toml."""


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


def until(is_so: Callable[[], bool]) -> None:
    """Ask again and again."""
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, f"nothing has changed for {PATIENCE_S} s"
        pause(0.02)


def run(coroutine: Awaitable[T]) -> T:
    """Run a coroutine in a loop of its own."""

    async def call() -> T:
        async with asyncio.timeout(PATIENCE_S):
            return await coroutine

    return asyncio.run(call())


class Waits(BaseException):
    """Past everything that would make an answer of it."""


@contextmanager
def ends(within_s: int) -> Iterator[None]:
    """Raise Waits in the main thread if it is still there after so long, whatever it waits for."""

    def on_alarm(*_: object) -> None:
        raise Waits

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(within_s)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
