"""A TCP proxy that falls silent: connections stay open and are accepted, and nothing passes any more."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Self


class SilentProxy:
    """`async with SilentProxy() as proxy`, then `proxy.upstream = (host, port)` before the first client comes."""

    def __init__(self) -> None:
        self.upstream = ("", 0)
        self.port = 0
        self.is_silent = False
        self.most_answers = inf
        """Number of answers after which a connection is silent."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._answers = self._drops = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def has_no_connections(self) -> None:
        """Wait until every client has closed its connections."""
        await self._until(lambda: not self._tasks)

    async def has_answered(self, count: int) -> None:
        """Wait until so many answers have passed, of all connections."""
        await self._until(lambda: bool(self._tasks) and self._answers >= count)

    async def has_dropped_something(self) -> None:
        await self._until(lambda: self._drops > 0)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def _on_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        self._changed.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            self._changed.set()
            task.add_done_callback(self._on_ended)
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.transport.abort()
            return
        pumps = [
            asyncio.ensure_future(self._pump(reader, upstream_writer, None)),
            asyncio.ensure_future(self._pump(upstream_reader, writer, self.most_answers)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.transport.abort()
            upstream_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: float | None) -> None:
        while data := await reader.read(65_536):
            if answers is not None:
                answers -= 1
            if self.is_silent or (answers is not None and answers < 0):
                self._drops += 1
                self._changed.set()
                continue
            writer.write(data)
            if answers is not None:
                self._answers += 1
                self._changed.set()
