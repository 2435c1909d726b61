"""How long a copy that has an end waits without coming nearer to it, and who watches a copy.

Owns: the deadline of `oncelog copy --once` and of a switch-over. Does not own: what is copied (`life`), what is printed
(`reporting`). Invariants: every step towards the end restarts the time, so a large copy takes as long as it takes,
and nothing else does: neither what is copied beside it of a source that is written to, nor a life that begins again.
While a person is waited for there is no deadline. A copy that gives up has committed nothing in part.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.client.values.errors import RequestTimedOut

if TYPE_CHECKING:
    from oncelog.tools.copy.groups import GroupCopy
    from oncelog.tools.copy.survey import Survey


class Watcher(Protocol):
    """Notified of the copy's progress."""

    def on_survey(self, found: "Survey") -> None:
        """Note that a life begins."""

    def on_copied(self, record_count: int, size_bytes: int, left: int) -> None:
        """Note that a transaction is committed; `left` offsets of the source are known that are not copied yet."""

    def on_groups(self, groups: "Sequence[GroupCopy]") -> None:
        """Note that offsets of groups were translated."""

    def on_trouble(self, problem: str) -> None:
        """Note that something is away, and is waited for; or that a new life begins."""

    async def until_stopped(self) -> None:
        """Return when the source's clients are stopped; called in a switch-over once everything is copied."""


class Patience:
    """A watcher around `watcher`, which gives up after `most_s` without a step; never if that is None."""

    def __init__(self, watcher: Watcher, most_s: float | None) -> None:
        self._watcher = watcher
        self._most_s = most_s
        self._timeout: asyncio.Timeout | None = None
        self._left: int | None = None
        self._problem = ""

    def deadlines(self) -> dict[str, Any]:
        """Return options of the producer, short enough for its errors to be known when the time is over."""
        half_ms = None if self._most_s is None else max(1, int(self._most_s * 500))
        return {} if half_ms is None else {"delivery_timeout_ms": half_ms, "max_block_ms": half_ms}

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Raises RequestTimedOut, with what was met last."""
        try:
            async with asyncio.timeout(self._most_s) as self._timeout:
                yield
        except TimeoutError as error:
            if not self._timeout.expired():  # type: ignore[union-attr]  # set above
                raise
            met = f" ({self._problem})" if self._problem else ""
            raise RequestTimedOut(
                f"nothing was copied for {self._most_s:g} s{met}. What is copied stays, and the same command "
                f"continues from there"
            ) from error

    def on_step(self) -> None:
        self._problem = ""
        self._begin(self._most_s)

    def on_left(self, left: int) -> None:
        """Note that `left` offsets are missing to the end that is waited for."""
        if self._left is None or left < self._left:
            self.on_step()
        self._left = left

    def _begin(self, most_s: float | None) -> None:
        if self._timeout is not None and not self._timeout.expired():
            now_s = asyncio.get_running_loop().time()
            self._timeout.reschedule(None if most_s is None else now_s + most_s)

    # --- the watcher --------------------------------------------------------------------------------------------------

    def on_survey(self, found: "Survey") -> None:
        self._watcher.on_survey(found)

    def on_copied(self, record_count: int, size_bytes: int, left: int) -> None:
        self._watcher.on_copied(record_count, size_bytes, left)

    def on_groups(self, groups: "Sequence[GroupCopy]") -> None:
        self.on_step()
        self._watcher.on_groups(groups)

    def on_trouble(self, problem: str) -> None:
        self._problem = problem
        self._watcher.on_trouble(problem)

    async def until_stopped(self) -> None:
        self._begin(None)
        await self._watcher.until_stopped()
        self._left = None
        self._begin(self._most_s)
