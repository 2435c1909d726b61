"""Waits of the client: each has a deadline, a point in time on the loop's clock, and each future resolves once.

`done()` before `set_result` is not enough: with `asyncio.run`, Ctrl-C cancels the main task, and with it what it
awaits, in a signal handler (`asyncio.Runner`), which Python runs between any two instructions: between these two as
well.
"""

import asyncio
from contextlib import suppress
from typing import Self, TypeVar

from oncelog.client.values.errors import KafkaError, RequestTimedOut

ResultT = TypeVar("ResultT")
_LEAST_S = 0.0005
"""How much too early a timer may fire."""
_LEAST_ATTEMPT_S = 0.05
"""The least time for an attempt; the timeout of a shorter one would hide the error of the one before."""


class Deadline:
    """A time limit, made by `Deadline.after(ms)`; never on the wall clock, which may jump."""

    __slots__ = ("at_s",)

    def __init__(self, at_s: float) -> None:
        self.at_s = at_s

    @classmethod
    def after(cls, timeout_ms: float) -> Self:
        return cls(asyncio.get_running_loop().time() + timeout_ms / 1000)

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.at_s - asyncio.get_running_loop().time())

    @property
    def remaining_ms(self) -> int:
        """The time that the broker may take, for the timeout in a request."""
        return int(self.remaining_s * 1000)

    @property
    def expired(self) -> bool:
        return self.at_s - asyncio.get_running_loop().time() < _LEAST_S

    def capped(self, timeout_ms: float) -> "Deadline":
        """Return the earlier of this deadline and `timeout_ms` from now."""
        return Deadline(min(self.at_s, asyncio.get_running_loop().time() + timeout_ms / 1000))

    def allows(self, backoff_ms: float) -> bool:
        """Whether there is time for another attempt after such a pause."""
        return self.remaining_s - backoff_ms / 1000 >= _LEAST_ATTEMPT_S

    async def pause(self, backoff_ms: float, waiting_for: str, cause: KafkaError | None = None) -> None:
        """Sleep before the next attempt. If no time is left for one, sleep until the deadline and raise
        RequestTimedOut, with what the last attempt met."""
        if self.allows(backoff_ms):
            await asyncio.sleep(backoff_ms / 1000)
            return
        await asyncio.sleep(self.remaining_s)
        if cause is None:
            raise RequestTimedOut(f"{waiting_for}: no response")
        raise RequestTimedOut(f"{waiting_for}: {cause.message}", hint=cause.hint) from cause


def resolve(waiter: "asyncio.Future[ResultT]", result: ResultT) -> bool:
    """Resolve a future unless it has ended; whether it still waited."""
    try:
        waiter.set_result(result)
    except asyncio.InvalidStateError:
        return False
    return True


def reject(waiter: "asyncio.Future[ResultT]", error: BaseException) -> None:
    with suppress(asyncio.InvalidStateError):
        waiter.set_exception(error)
