"""When a member's program polls: one that has not polled for max.poll.interval.ms leaves its group.

Owns: the time of the last poll, and whether one is under way. Does not own: polls (`consuming.reading`,
`sharing.handing_out`), or how a member leaves.
"""

import asyncio


class Polling:
    __slots__ = ("_interval_s", "_is_polling", "_last_s")

    def __init__(self, max_poll_interval_ms: float) -> None:
        self._interval_s = max_poll_interval_ms / 1000
        self._is_polling = False
        self._last_s = asyncio.get_running_loop().time()

    def begin(self) -> None:
        self._is_polling = True

    def end(self) -> None:
        self._is_polling = False
        self._last_s = asyncio.get_running_loop().time()

    @property
    def is_silent(self) -> bool:
        """Whether the last poll ended too long ago."""
        return not self._is_polling and asyncio.get_running_loop().time() - self._last_s > self._interval_s
