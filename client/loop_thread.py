"""An event loop in a thread of its own, and blocking objects on it.

Owns: one loop in its own thread per object, and the calls into it. Does not own: what runs there (`sync`,
`sync_admin`). Invariant: leaving the `with` block ends the thread.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from oncelog.client.errors import InvalidState, RequestTimedOut

T = TypeVar("T")
ClientT = TypeVar("ClientT", bound=AbstractAsyncContextManager[Any])
_STOP_TIMEOUT_S = 30.0


class LoopThread:
    """An event loop in a thread."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run on the loop and wait here. An exception here, Ctrl-C for one, cancels it there."""
        if not self._thread.is_alive():
            work.close()
            raise InvalidState("the client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            if future.done():
                raise
            raise RequestTimedOut(f"not finished within {timeout_s} s") from None
        finally:
            if not future.done():
                future.cancel()

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_STOP_TIMEOUT_S)
            self._loop.close()


class Facade(Generic[ClientT]):
    """Common to the three clients: `with` opens and closes them."""

    def __init__(self, client: ClientT) -> None:
        self._client = client
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        self._thread = LoopThread(type(self).__name__)
        opened = False
        try:
            self._run(self._client.__aenter__())
            opened = True
        finally:
            if not opened:
                self._stop()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._run(self._client.__aexit__(kind, error, traceback))
        finally:
            self._stop()

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        if self._thread is None:
            work.close()
            raise InvalidState("the client is not open", hint="use it in a `with` block")
        return self._thread.run(work, timeout_s)

    def _stop(self) -> None:
        if self._thread is not None:
            thread, self._thread = self._thread, None
            thread.stop()
