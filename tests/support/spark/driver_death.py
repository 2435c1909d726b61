"""A driver of Spark's sink that dies around one step of publishing, as by kill -9, inside this process.

Its event loop stops there and never runs again: no `finally`, no abort, and what it had not handed to the system is
lost. Its connections break, as the system does it for a dead process.
"""

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from oncelog.pipeline.sink.publish import Moment, Outcome, Step
from oncelog.pipeline.sink.table_files import TableStep

MOMENTS: tuple[Moment, Moment] = ("before", "after")
_GRAVEYARD: list[object] = []
"""Objects that dead drivers have left: collecting them would run their `finally` blocks."""


class DriverDied(Exception):
    """The driver is dead: what called it learns this, as Spark learns that a process is gone."""


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.sockets: list[socket.socket] = []

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        transport, protocol = await super().create_connection(*arguments, **options)
        self.sockets.append(transport.get_extra_info("socket"))
        return transport, protocol


class Death:
    """Dies at the `nth` time that this step is reached; `None` never."""

    def __init__(self, step: Step | TableStep | None, moment: Moment = "before", nth: int = 1) -> None:
        self.step = step
        self.moment = moment
        self.nth = nth
        self._seen = 0

    def __repr__(self) -> str:
        return f"{self.moment} {self.step.value if self.step else 'never'} {self.nth}"

    async def on_step(self, step: Step | TableStep, moment: Moment) -> None:
        if step is not self.step or moment != self.moment:
            return
        self._seen += 1
        if self._seen == self.nth:
            asyncio.get_running_loop().stop()
            await asyncio.get_running_loop().create_future()

    def run(self, work: Coroutine[Any, Any, Outcome]) -> Outcome:
        """Like asyncio.run. Raises DriverDied."""
        loop = _Loop()
        try:
            outcome = loop.run_until_complete(work)
        except RuntimeError:
            if self._seen < self.nth:
                raise
            for each in loop.sockets:
                with suppress(OSError):  # it was closed before the driver died
                    each.shutdown(socket.SHUT_RDWR)
            _GRAVEYARD.append((loop, work, asyncio.all_tasks(loop)))
            raise DriverDied(repr(self)) from None
        loop.close()
        return outcome


def deaths(output_count: int, *, commits_group: bool = False) -> list[Death]:
    """All deaths before and after a step of a batch with so many outputs, and perhaps a commitGroup."""
    return [
        Death(step, moment, nth)
        for step in Step
        if commits_group or step is not Step.SEND_OFFSETS
        for nth in range(1, (output_count if step is Step.SEND else 1) + 1)
        for moment in MOMENTS
    ]


def deaths_with_table() -> list[Death]:
    """All deaths before and after a step of a batch with one topic and one table."""
    return [*deaths(1), *(Death(step, moment) for step in TableStep for moment in MOMENTS)]
