"""One client connection: bytes in, requests started in order, answers out in the same order.

Owns: the frame reader, the queue of exchanges whose answers are still to be written, back-pressure both ways.
Does not own: what a request means (`broker.dispatch`), who may connect (`broker.net.listener`).

Invariants
- Answers leave in request order. A request starts once the one before it is answered, except after a `Pipelined`
  answer (Produce, once appended): Kafka mutes a channel in the same way, and clients lean on it for sequences.
- Memory is bounded: a client that does not read its answers is not read from; at most `MAX_IN_FLIGHT` requests wait.
- Bytes that are no request cost this connection and nothing else; the reason is logged once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

from broker.dispatch import CloseConnection, Dispatcher, Exchange, Parts
from protocol.errors import ProtocolError
from protocol.frames import FrameReader

if TYPE_CHECKING:
    from broker.broker import Broker

MAX_IN_FLIGHT = 1_000
_LARGE_PART_BYTES = 16_384


class Peer:
    """Who is at the other end, and the address under which this listener is advertised to it."""

    __slots__ = ("advertised", "host", "listener_name", "on_gone", "port")

    def __init__(self, host: str, port: int, listener_name: str, advertised: tuple[str, int]) -> None:
        self.host: Final = host
        self.port: Final = port
        self.listener_name: Final = listener_name
        self.advertised: Final = advertised
        self.on_gone: Callable[[], None] | None = None
        """Called when the connection ends: what waits for this peer, one thing at a time, need not wait any more."""

    def go(self) -> None:
        on_gone, self.on_gone = self.on_gone, None
        if on_gone is not None:
            on_gone()

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"


class Connection(asyncio.Protocol):
    def __init__(
        self,
        broker: "Broker",
        dispatcher: Dispatcher,
        listener_name: str,
        advertised: tuple[str, int],
        open_connections: "set[Connection]",
    ) -> None:
        self._broker = broker
        self._dispatcher = dispatcher
        self._listener_name = listener_name
        self._advertised = advertised
        self._open_connections = open_connections
        self._reader = FrameReader(broker.config.get_int("socket.request.max.bytes"))
        self._frames: deque[memoryview] = deque()
        self._exchanges: deque[Exchange] = deque()
        self._output: Parts = []
        self._pumping = False
        self._pump_is_due = False
        self._write_paused = False
        self._read_paused = False
        self._transport: asyncio.Transport | None = None
        self._peer = Peer("?", 0, listener_name, advertised)

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        name = transport.get_extra_info("peername")
        host, port = name[:2] if name else ("?", 0)
        self._peer = Peer(host, port, self._listener_name, self._advertised)
        self._open_connections.add(self)
        self._broker.metrics.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._open_connections.discard(self)
        self._frames.clear()
        self._exchanges.clear()
        self._peer.go()

    def data_received(self, data: bytes) -> None:
        self._broker.metrics.request_bytes += len(data)
        try:
            frames = self._reader.feed(data)
        except ProtocolError as error:
            self.close(str(error))
            return
        self._frames.extend(frames)
        self._pump()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._maybe_pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._pump()

    # --- requests and answers -----------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start what may start, write what may be written."""
        if self._pumping or self._transport is None:
            return
        self._pumping = True
        try:
            self._write_ready()
            while self._frames and not self._write_paused and self._may_start():
                self._start(self._frames.popleft())
                if self._transport is None:
                    return
                self._write_ready()
        finally:
            self._pumping = False
        self._send()
        self._maybe_pause_reading()

    def _on_exchange(self) -> None:
        # A flush round ends many exchanges in one turn: their answers leave together, in one write.
        if not self._pump_is_due:
            self._pump_is_due = True
            self._broker.scheduler.call_soon(self._pump_due)

    def _pump_due(self) -> None:
        self._pump_is_due = False
        self._pump()

    def _may_start(self) -> bool:
        exchanges = self._exchanges
        return not exchanges or (not exchanges[-1].holds and len(exchanges) < MAX_IN_FLIGHT)

    def _start(self, frame: memoryview) -> None:
        try:
            exchange = self._dispatcher.dispatch(frame, self._peer)
        except (ProtocolError, CloseConnection) as error:
            self.close(str(error))
            return
        if not exchange.done:
            exchange.on_done = self._on_exchange
        self._exchanges.append(exchange)

    def _write_ready(self) -> None:
        exchanges = self._exchanges
        while exchanges and exchanges[0].done:
            exchange = exchanges.popleft()
            if exchange.closes is not None:
                self._send()
                self.close(exchange.closes)
                return
            if exchange.parts is not None:
                self._frame(exchange.parts)

    def _frame(self, parts: Parts) -> None:
        size = 0
        for part in parts:
            size += len(part)
        self._broker.metrics.response_bytes += size + 4
        self._output.append(size.to_bytes(4, "big"))
        self._output += parts

    def _send(self) -> None:
        if not self._output or self._transport is None:
            return
        output, self._output = self._output, []
        small: Parts = []
        for part in output:
            # Record data goes to the socket as it is; headers around it are joined, since each write costs more.
            if len(part) >= _LARGE_PART_BYTES:
                if small:
                    self._transport.write(b"".join(small))
                    small = []
                self._transport.write(part)
            else:
                small.append(part)
        if small:
            self._transport.write(b"".join(small))

    def _maybe_pause_reading(self) -> None:
        transport = self._transport
        if transport is None:
            return
        pause = self._write_paused or bool(self._frames)
        if pause and not self._read_paused:
            transport.pause_reading()
        elif not pause and self._read_paused:
            transport.resume_reading()
        self._read_paused = pause

    def close(self, reason: str | None = None) -> None:
        """Close for `reason` (logged) or because the broker stops (silently); what was answered is still sent."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if reason is not None:
            self._broker.log.warning(
                "connection.closed", peer=self._peer.address, listener=self._listener_name, reason=reason
            )
        self._frames.clear()
        self._exchanges.clear()
        transport.close()
