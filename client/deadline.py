"""A point in time on the loop's clock; every wait of the client has one."""

import asyncio
from typing import Self

from oncelog.client.errors import KafkaError, RequestTimedOut

_LEAST_S = 0.0005
"""Less is no time for an attempt, whose timeout would hide the error of the one before: timers may fire too early."""


class Deadline:
    """`Deadline.after(ms)`; never on the wall clock, which may jump."""

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
    def expired(self) -> bool:
        return self.at_s - asyncio.get_running_loop().time() < _LEAST_S

    def capped(self, timeout_ms: float) -> "Deadline":
        """The earlier of this one and `timeout_ms` from now."""
        return Deadline(min(self.at_s, asyncio.get_running_loop().time() + timeout_ms / 1000))

    async def pause(self, backoff_ms: float, waiting_for: str, cause: KafkaError | None = None) -> None:
        """Sleep before the next attempt; raises RequestTimedOut if no time is left for one."""
        if self.expired:
            raise RequestTimedOut(f"{waiting_for}: {cause.message if cause else 'no response'}") from cause
        await asyncio.sleep(min(backoff_ms / 1000, self.remaining_s))
