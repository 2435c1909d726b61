"""The network between real clients and the broker of a world: slow, and cut before a request or before its response.

Owns: the event loop of the clients, which runs at the world's time, and what happens to bytes on their way. Does not
own: what the clients do, which broker answers.
Invariant: as over TCP, a connection loses nothing unless it breaks, and responses come in the order of their requests.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from random import Random

from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Exchange
from tests.fakes.broker import HOST, PORT
from tests.fakes.virtual_loop import Connection, ScriptedBroker, VirtualLoop

BOOTSTRAP = f"{HOST}:{PORT}"
_TRIPS_AT_ONCE = 10
"""How many requests one after the other are answered in a step of the world, if each takes no time."""
_CUT_SHARE = 0.004
_END_MS = 120_000
"""Time enough for a client to give up everything."""

Serve = Callable[[memoryview, Peer], Exchange]


class Wires(ScriptedBroker):
    def __init__(self, random: Random, serve: Serve) -> None:
        super().__init__({})
        self.loop = VirtualLoop(self)
        self.is_calm = False
        self.cut_count = 0
        self._random = random
        self._serve = serve
        self._now_ms = 0
        self._on_the_way: list[tuple[int, int, Wire, bytes]] = []
        self._order = count()

    def connect(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol) -> "Wire":
        return Wire(loop, protocol, self)

    def pass_time(self, delay_ms: int) -> None:
        """Let the clients run for a while, and take their requests to the broker. Raises what it raises."""
        self._now_ms += delay_ms
        for _ in range(_TRIPS_AT_ONCE):
            self.loop.run_to(self._now_ms / 1000)
            if not self._arrive() | self._respond():
                break

    def leave(self, wire: "Wire", frame: memoryview) -> None:
        due_ms = self._now_ms + self._latency_ms()
        heappush(self._on_the_way, (due_ms, next(self._order), wire, bytes(frame)))

    def _arrive(self) -> bool:
        arrived = False
        while self._on_the_way and self._on_the_way[0][0] <= self._now_ms:
            _, _, wire, frame = heappop(self._on_the_way)
            if not wire.is_closing() and not self._is_cut(wire):
                wire.exchanges.append(self._serve(memoryview(frame), wire.peer))
                arrived = True
        return arrived

    def _respond(self) -> bool:
        responded = False
        for wire in [each for each in self.connections if isinstance(each, Wire)]:
            while wire.exchanges and wire.exchanges[0].done and not wire.is_closing():
                exchange = wire.exchanges.popleft()
                responded = True
                if exchange.closes is not None:
                    wire.close()
                elif exchange.parts is not None and not self._is_cut(wire):
                    wire.respond(b"".join(exchange.parts), self._latency_ms() / 1000)
            if wire.is_closing():
                self.connections.remove(wire)
                wire.forget()
        return responded

    def _is_cut(self, wire: "Wire") -> bool:
        if self.is_calm or self._random.random() >= _CUT_SHARE:
            return False
        self.cut_count += 1
        wire.close()
        return True

    def _latency_ms(self) -> int:
        return self._random.choice([0, 0, 1, 1, 5, 40])

    def cut_all(self) -> None:
        """The broker stops: what it has not answered yet, it never will."""
        for wire in self.connections:
            wire.close()

    def close(self) -> None:
        """End every client, without a broker."""
        self.refusing.add(HOST)
        self.cut_all()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_to(self._now_ms / 1000 + _END_MS / 1000)
        self.loop.close()


class Wire(Connection):
    """A connection of a real client to the broker, whichever runs then."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol, wires: Wires) -> None:
        super().__init__(loop, protocol, wires)
        self.peer = Peer("10.0.0.2", 40_000, "PLAINTEXT", (HOST, PORT))
        self.exchanges: deque[Exchange] = deque()
        self._wires = wires

    def _on_request(self, frame: memoryview) -> None:
        self._wires.leave(self, frame)

    def respond(self, response: bytes, delay_s: float) -> None:
        self._respond(response, delay_s)

    def forget(self) -> None:
        """Let the broker know that the client has gone."""
        self.peer.is_disconnected = True
        for on_end in (self.peer.on_disconnect, self.peer.on_left):
            if on_end is not None:
                on_end()
