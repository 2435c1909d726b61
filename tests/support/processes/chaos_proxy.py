"""A TCP proxy that treats connections badly, from a seed: it delays, cuts in the middle of a frame, goes silent, and
sends what a client has sent once more over a connection of its own.

Owns: which connection fares how. The seed decides the fate of each connection and after how many bytes; what the bytes
are depends on timing, so a failure has a seed to try again, not a replay.
"""

import asyncio
import random
from dataclasses import dataclass
from typing import Literal

Fate = Literal["spared", "cut", "reset", "silent", "repeated"]
_FATES: tuple[Fate, ...] = ("spared", "cut", "reset", "silent", "repeated")
_CHUNK_BYTES = 4096
_MOST_BYTES = 10_000
_KEPT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Plan:
    """The fate of one connection, once so many bytes have passed in either direction."""

    fate: Fate
    after_bytes: int
    delay_s: float


class ChaosProxy:
    """`async with ChaosProxy(seed) as proxy`, then `proxy.upstream = (host, port)` before the first client comes."""

    def __init__(self, seed: int, *, may_repeat: bool = True) -> None:
        self._source = random.Random(seed)
        self._may_repeat = may_repeat
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_calm = False
        self.upstream = ("", 0)
        self.port = 0
        self.counts: dict[str, int] = dict.fromkeys(_FATES, 0)

    async def __aenter__(self) -> "ChaosProxy":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def calm_down(self) -> None:
        """New connections are spared from now on."""
        self._is_calm = True

    def _plan(self) -> Plan:
        source = self._source
        fate = source.choice(_FATES if self._may_repeat else _FATES[:-1])
        plan = Plan(fate, source.randrange(200, _MOST_BYTES), source.choice((0.0, 0.0, 0.002, 0.02)))
        return Plan("spared", 0, 0.0) if self._is_calm else plan

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        plan = self._plan()
        self.counts[plan.fate] += 1
        sent = bytearray()
        try:
            upstream_reader, upstream_writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            writer.transport.abort()
            return
        passed = [0]
        pumps = (
            asyncio.ensure_future(self._pump(reader, upstream_writer, plan, passed, sent)),
            asyncio.ensure_future(self._pump(upstream_reader, writer, plan, passed, None)),
        )
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for each in (writer, upstream_writer):
                if plan.fate == "reset":
                    each.transport.abort()
                else:
                    each.close()
        if plan.fate == "repeated":
            await self._repeat(bytes(sent))

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        plan: Plan,
        passed: list[int],
        kept: bytearray | None,
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            if plan.delay_s:
                await _held_up(plan.delay_s)
            if plan.fate != "spared":
                room = plan.after_bytes - passed[0]
                if len(data) >= room:
                    # Half a frame, as like as not.
                    writer.write(data[: max(0, room)])
                    if plan.fate == "silent":
                        await asyncio.Event().wait()
                    await writer.drain()
                    return
            passed[0] += len(data)
            if kept is not None and len(kept) < _KEPT_BYTES:
                kept += data
            writer.write(data)
            await writer.drain()

    async def _repeat(self, sent: bytes) -> None:
        """Everything that the client sent arrives a second time; the answers are not read."""
        try:
            reader, writer = await asyncio.open_connection(*self.upstream)
        except OSError:
            return
        try:
            writer.write(sent)
            async with asyncio.timeout(0.5):
                while await reader.read(_CHUNK_BYTES):
                    pass
        except (OSError, TimeoutError):
            pass
        finally:
            writer.transport.abort()


async def _held_up(delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(delay_s, passed.set_result, None)
    await passed
