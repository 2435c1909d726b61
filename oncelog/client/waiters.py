"""Ends the wait of whoever awaits a future, if it still waits.

`done()` before `set_result` isn't enough: with `asyncio.run`, Ctrl-C cancels the main task, and with it what it awaits,
in a signal handler (`asyncio.Runner`), which Python runs between any two instructions: between these two as well.
"""

import asyncio
from contextlib import suppress
from typing import TypeVar

ResultT = TypeVar("ResultT")


def resolve(waiter: "asyncio.Future[ResultT]", result: ResultT) -> bool:
    """Whether it still waited."""
    try:
        waiter.set_result(result)
    except asyncio.InvalidStateError:
        return False
    return True


def reject(waiter: "asyncio.Future[ResultT]", error: BaseException) -> None:
    with suppress(asyncio.InvalidStateError):
        waiter.set_exception(error)
