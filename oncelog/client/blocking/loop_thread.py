"""An event loop in a thread of its own, and blocking objects on it.

Owns: one loop in its own thread per client, the calls into it, and how a method of an asyncio client becomes a blocking
one. Does not own: what runs there (`clients`, `admin`). Invariants, as of `asyncio.run`: a call that an exception
interrupts, Ctrl-C for one, is cancelled, and has ended when the exception is raised; leaving the `with` block cancels
what still runs, and ends the thread. A blocking method has the arguments, types and text of the asyncio one, since it
is made of it.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from oncelog.client.values.errors import InvalidState, RequestTimedOut
from oncelog.client.values.lifetime import Lifetime

P = ParamSpec("P")
T = TypeVar("T")
ClientT = TypeVar("ClientT")


class Opened(Protocol):
    """An asyncio client."""

    _lifetime: Lifetime

    async def __aenter__(self) -> Any: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Any: ...


OpenedT = TypeVar("OpenedT", bound=Opened)
_STOP_TIMEOUT_S = 30.0
"""How long to wait for cancelled tasks to end. The longest, aborting a transaction, takes a few seconds."""


class LoopThread:
    """An event loop in a thread, between `start` and `stop`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = asyncio.Event()

    def start(self) -> None:
        if self._thread is not None:
            raise InvalidState("a client can be opened only once")
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = runner.get_loop()
        self._thread = threading.Thread(target=self._serve, args=(runner,), name=self._name, daemon=True)
        self._thread.start()

    def _serve(self, runner: asyncio.Runner) -> None:
        with runner:
            runner.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        await self._stopped.wait()

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run on the loop and wait here. An exception here, Ctrl-C for one, cancels it there, and is raised when it has
        ended."""
        loop = self._loop
        if loop is None or not self.is_running:
            work.close()
            state = "not open" if loop is None else "closed"
            raise InvalidState(f"the client is {state}", hint="use it in a `with` block")
        if self._thread is not None and threading.get_ident() == self._thread.ident:
            work.close()
            hint = "do it after the call that runs the hook returns, or use the asyncio client"
            raise InvalidState(
                "a hook of a blocking client cannot call the client: it would wait for itself", hint=hint
            )
        future: Future[T] | None = None
        try:
            future = asyncio.run_coroutine_threadsafe(work, loop)
            return future.result(timeout_s)
        except TimeoutError:
            if future is None or future.done():
                raise
            raise RequestTimedOut(f"not finished within {timeout_s} s") from None
        finally:
            if future is None or not future.done():
                with suppress(TimeoutError):
                    asyncio.run_coroutine_threadsafe(_cancel(work), loop).result(_STOP_TIMEOUT_S)

    def stop(self) -> None:
        """End the loop and its thread."""
        if self._loop is not None and self._thread is not None and self.is_running:
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join(_STOP_TIMEOUT_S)


async def _cancel(work: Coroutine[Any, Any, Any]) -> None:
    """Cancel the call and return when it has ended. Its task is not needed here: Ctrl-C may come before it is known."""
    tasks = [each for each in asyncio.all_tasks() if each.get_coro() is work]
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class OnLoop(Generic[ClientT]):
    """A blocking object, made of the asyncio one and the loop that it belongs to."""

    def __init__(self, client: ClientT, thread: LoopThread) -> None:
        self._client = client
        self._thread = thread

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        return self._thread.run(work, timeout_s)


class Facade(OnLoop[OpenedT]):
    """A client with a thread of its own: `with` opens and closes both."""

    def __init__(self, client: OpenedT) -> None:
        super().__init__(client, LoopThread(type(self).__name__))
        self._lifetime = Lifetime(type(self).__name__)
        client._lifetime.belong_to(self._lifetime)

    def __enter__(self) -> Self:
        self._thread.start()
        opened = False
        try:
            self._run(self._client.__aenter__())
            opened = True
        finally:
            if not opened:
                self._thread.stop()
        self._lifetime.is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lifetime.close()
        if not self._thread.is_running:
            return
        try:
            self._run(self._client.__aexit__(kind, error, traceback))
        finally:
            self._thread.stop()


def blocking(
    method: Callable[Concatenate[ClientT, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[OnLoop[ClientT], P], T]:
    """Return the method of an asyncio client as one that waits for its result."""

    @wraps(method)
    def call(self: OnLoop[ClientT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._run(method(self._client, *args, **kwargs))

    call.__doc__ = without_await(method.__doc__)
    return call


def blocking_call(
    method: Callable[Concatenate[ClientT, P], T],
) -> Callable[Concatenate[OnLoop[ClientT], P], T]:
    """Do as `blocking` for a method that does not wait, and must run where its object lives."""

    @wraps(method)
    def call(self: OnLoop[ClientT], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def there() -> T:
            return method(self._client, *args, **kwargs)

        return self._run(there())

    call.__doc__ = without_await(method.__doc__)
    return call


def closing(
    method: Callable[Concatenate[OpenedT, P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[Facade[OpenedT], P], None]:
    """Do as `blocking` for `close`, which ends the thread too."""

    @wraps(method)
    def call(self: Facade[OpenedT], /, *args: P.args, **kwargs: P.kwargs) -> None:
        self._lifetime.close()
        if not self._thread.is_running:
            return
        try:
            self._run(method(self._client, *args, **kwargs))
        finally:
            self._thread.stop()

    call.__doc__ = without_await(method.__doc__)
    return call


def without_await(text: str | None) -> str:
    """Return the docstring of an asyncio method as it reads for the blocking one."""
    return (text or "").replace("await ", "").replace("async ", "").replace("Awaiting", "Asking for the result")
