"""One client connection: bytes in, requests started in order, responses out in the same order.

Owns: the frame reader, the queue of exchanges whose responses are not written yet, back-pressure both ways.
Does not own: what a request means (`broker.requests.dispatch`), which clients may connect (`broker.net.quotas`), what
connections share and when they are idle (`broker.net.open_connections`).

Invariants
- Responses leave in request order. A request starts once the previous one is answered, except after a `Pipelined`
  result (Produce, once appended): Kafka mutes a channel in the same way, and clients rely on it for sequences.
- Memory is bounded: the broker does not read from a client that does not read its responses, and starts none of its
  requests; at most `queued.max.requests` wait. What it holds at the end of a turn is accounted in `broker.net.memory`,
  to the byte: for requests, the buffer of the partial one and those that wait to start; for responses, those that wait
  for an earlier one and, until all of it is sent, the whole of what the transport could not send at once.
- Malformed bytes cost only this connection; the reason is logged once. Requests before them are answered first, as they
  are when a client has closed its sending side (a half-closed socket).
- One connection occupies the loop for no longer than `_REQUESTS_A_TURN` requests or `_OUTPUT_A_TURN_BYTES` of
  responses.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, cast

from oncelog.broker.config.listeners import plain_address
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.requests.context import CloseConnection, Peer
from oncelog.broker.requests.dispatch import Dispatcher, Exchange, Parts
from oncelog.broker.security.principal import Principal
from oncelog.broker.turns.ports import MonotonicMs, Timer
from oncelog.protocol.errors import ProtocolError
from oncelog.protocol.frames import FrameReader

if TYPE_CHECKING:
    from oncelog.broker.net.login import SaslLogin
    from oncelog.broker.requests.parts import Broker

Dispatch = Callable[[memoryview, Peer], Exchange]
"""Starts a request, see `Dispatcher.dispatch`."""

_LARGE_PART_BYTES = 16_384
_HANG_UP_MS = 300
"""How long a client may take to close its side when the broker stops."""
_OUTPUT_A_TURN_BYTES = 65_536
_REQUESTS_A_TURN = 100


class Connection(asyncio.Protocol):
    def __init__(
        self,
        broker: "Broker",
        dispatcher: Dispatcher,
        listener_name: str,
        advertised: tuple[str, int],
        open_connections: OpenConnections,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self.broker = broker
        """The broker that serves this client."""
        self._dispatch: Dispatch = dispatcher.dispatch
        self._listener_name = listener_name
        self._advertised = advertised
        self._open_connections = open_connections
        self._on_lost = on_lost
        self._busy_poll = open_connections.busy_poll
        self._reader = FrameReader(broker.config.get_int("socket.request.max.bytes"))
        self._max_in_flight = broker.config.get_int("queued.max.requests")
        self._frames: deque[memoryview] = deque()
        self._exchanges: deque[Exchange] = deque()
        self._output: Parts = []
        self._output_bytes = 0
        self._pumping = False
        self._pump_is_due = False
        self._write_paused = False
        self._read_paused = False
        self._throttle_timer: Timer | None = None
        """The timer that is set while the client is above a quota."""
        self._throttled_until_ms = 0
        self._request_bytes = 0
        self._waiting_bytes = 0
        self._answer_bytes = 0
        self._kept_bytes = 0
        """Bytes of the answers that were handed to the transport and not sent completely: it frees no part of a buffer,
        so a megabyte of which the kernel has taken nine tenths is still a megabyte."""
        self._noted_unsent_bytes = 0
        self._is_ending = False
        self._hangs_up = False
        self._end_reason: str | None = None
        self._unsent_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._admission_timer: Timer | None = None
        self._peer = Peer("?", 0, listener_name, advertised)
        self.is_closing = False
        self.has_moved = True
        self.last_moved_ms = 0

    # --- asyncio.Protocol ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        # The transport notifies us of anything not sent at once, and when it has been: no polling is needed.
        self._transport.set_write_buffer_limits(high=0)
        name = transport.get_extra_info("peername")
        host, port = (plain_address(name[0]), name[1]) if name else ("?", 0)
        response_limit = self._open_connections.answers.next_response_bytes
        login = self._peer.login
        self._peer = Peer(host, port, self._listener_name, self._advertised, response_limit)
        self._peer.throttle = self._throttle
        self._peer.login = login
        self._open_connections.add(self)
        self.broker.metrics.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._stop_admission_timer()
        if self._peer.login is not None:  # which refers to this connection: a cycle
            self._peer.login = None
            self._dispatch = _dispatch_nothing
        self.is_closing = True
        self._open_connections.remove(self)
        self._forget()
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()

    def data_received(self, data: bytes) -> None:
        if self._is_ending:
            return
        self.broker.metrics.request_bytes += len(data)
        if self._busy_poll is not None:
            self._busy_poll.on_request()
        self.has_moved = True
        try:
            frames = self._reader.feed(data)
        except ProtocolError:
            frames = []
        self._frames += frames
        if self._reader.error is not None:
            self._end(self._reader.error)
        self._pump()

    def eof_received(self) -> bool:
        """Keep our side open: the client has sent all it will send, and gets its responses, except one that may never
        be ready."""
        if self.is_closing or self._peer.on_disconnect is not None or not (self._frames or self._exchanges):
            return False
        self._end(None)
        return True

    def pause_writing(self) -> None:
        self._write_paused = True
        self._maybe_pause_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._kept_bytes = 0
        self.has_moved = True
        self.note_answers()
        self._pump()

    # --- admission ----------------------------------------------------------------------------------------------------

    def await_admission(self, timeout_ms: int) -> None:
        """Close the connection if the client is not admitted in time."""
        self._admission_timer = self.broker.scheduler.call_later(timeout_ms, self._on_not_admitted)

    def await_login(self, login: "SaslLogin", max_request_bytes: int) -> None:
        """Require a login: until the client is admitted, requests go to `login` and are of up to
        `max_request_bytes`."""
        self._peer.login = login
        self._dispatch = login.dispatch
        self._reader.max_frame_bytes = max_request_bytes

    def admit(self, principal: Principal, dispatch: Dispatch) -> None:
        """Admit the client as `principal`; `dispatch` takes its requests from now on."""
        self._stop_admission_timer()
        self._peer.principal = principal
        self._dispatch = dispatch
        self._reader.max_frame_bytes = self.broker.config.get_int("socket.request.max.bytes")

    def _on_not_admitted(self) -> None:
        self._admission_timer = None
        self.close("no TLS handshake and no login was finished in time (oncelog.authentication.timeout.ms)")
        self.abort()

    def _stop_admission_timer(self) -> None:
        if self._admission_timer is not None:
            self._admission_timer.cancel()
            self._admission_timer = None

    # --- supervision --------------------------------------------------------------------------------------------------

    @property
    def is_waiting_for_us(self) -> bool:
        return bool(self._exchanges) and not self._write_paused

    def check_activity(self, monotonic_ms: MonotonicMs) -> None:
        unsent_bytes = 0 if self._transport is None else self._transport.get_write_buffer_size()
        if self.has_moved or unsent_bytes != self._unsent_bytes or self.is_waiting_for_us:
            self.last_moved_ms = monotonic_ms
        self.has_moved = False
        self._unsent_bytes = unsent_bytes

    @property
    def is_held_up(self) -> bool:
        return bool(self._frames and self._exchanges) and not self._exchanges[-1].holds and not self._write_paused

    @property
    def is_unread(self) -> bool:
        return self._write_paused

    def on_memory(self) -> None:
        self._maybe_pause_reading()

    # --- requests and responses ---------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Start the requests and write the responses that are due."""
        if self._pumping or self.is_closing:
            return
        self._pumping = True
        try:
            if self._exchanges:
                self._write_ready()
            if self._frames:
                self._start_due()
        finally:
            self._pumping = False
        if self._output:
            self._send()
        holds_requests = self._frames or self._request_bytes or self._reader.partial or self._read_paused
        if holds_requests or self._waiting_bytes or self._answer_bytes or self._write_paused or self._is_ending:
            self._after_pump()

    def _after_pump(self) -> None:
        """Account for what is held, and end if it is time; mostly there is nothing to do."""
        if self._waiting_bytes or self._write_paused or self._answer_bytes:
            self.note_answers()
        if self._is_ending and not self._frames and not self._exchanges:
            if self._hangs_up:
                self._hang_up()
            else:
                self.close(self._end_reason)
        self._maybe_pause_reading()

    def _start_due(self) -> None:
        """Start the requests that need not wait."""
        frames, exchanges = self._frames, self._exchanges
        started = 0
        while (
            frames and not self._write_paused and self._throttle_timer is None and (not exchanges or self._may_start())
        ):
            if started == _REQUESTS_A_TURN or self._output_bytes >= _OUTPUT_A_TURN_BYTES:
                if not self._pump_is_due:
                    self._pump_soon()
                return
            started += 1
            try:
                exchange = self._dispatch(frames.popleft(), self._peer)
            except (ProtocolError, CloseConnection) as error:
                frames.clear()
                self._end(None)
                self._end_reason = str(error)
                return
            if not exchange.done:
                exchange.on_done = self._on_done
            elif exchanges:
                self._waiting_bytes += exchange.size_bytes
            else:
                self._finish(exchange)
                continue
            exchanges.append(exchange)

    def _on_done(self, exchange: Exchange) -> None:
        # A flush round completes many exchanges in one turn: their responses leave together, in one write.
        if exchange.done:
            self._waiting_bytes += exchange.size_bytes
        if not self._pump_is_due:
            self._pump_soon()

    def _pump_soon(self) -> None:
        self._pump_is_due = True
        self.broker.scheduler.call_soon(self._pump_due)

    def _pump_due(self) -> None:
        self._pump_is_due = False
        self._pump()

    @property
    def _is_kept_waiting(self) -> bool:
        """Whether the client does not read, or is above a quota."""
        return self._write_paused or self._throttle_timer is not None

    def _may_start(self) -> bool:
        """Whether the order of requests allows another one to start."""
        exchanges = self._exchanges
        return (
            not exchanges[-1].holds
            and len(exchanges) < self._max_in_flight
            and self._waiting_bytes < _OUTPUT_A_TURN_BYTES
        )

    def _write_ready(self) -> None:
        exchanges = self._exchanges
        while exchanges and exchanges[0].done:
            exchange = exchanges.popleft()
            self._waiting_bytes -= exchange.size_bytes
            self._finish(exchange)

    def _finish(self, exchange: Exchange) -> None:
        """Send the response of the oldest request, which is done, or end the connection."""
        if exchange.closes is not None:
            self._send()
            self.close(exchange.closes)
        elif exchange.parts is not None:
            size = exchange.size_bytes
            self.broker.metrics.response_bytes += size + 4
            self._output_bytes += size + 4
            self._output += (size.to_bytes(4, "big"), *exchange.parts)

    def _send(self) -> None:
        transport = self._transport
        if not self._output or transport is None:
            return
        output, self._output = self._output, []
        is_small = self._output_bytes < _LARGE_PART_BYTES
        self._kept_bytes += self._output_bytes
        self._output_bytes = 0
        if is_small:
            transport.write(b"".join(output))
        else:
            _write_parts(transport, output)
        if not self._write_paused:
            self._kept_bytes = 0
        if self._busy_poll is not None:
            self._busy_poll.on_response()

    def note_answers(self) -> None:
        transport = self._transport
        unsent_bytes = transport.get_write_buffer_size() if self._write_paused and transport is not None else 0
        kept_bytes = max(unsent_bytes, self._kept_bytes) if unsent_bytes else 0
        held_bytes = kept_bytes if self.is_closing else self._waiting_bytes + kept_bytes
        if held_bytes != self._answer_bytes or unsent_bytes != self._noted_unsent_bytes:
            self._answer_bytes, self._noted_unsent_bytes = held_bytes, unsent_bytes
            self._open_connections.answers.note(self, held_bytes, kept_bytes - unsent_bytes)

    def _maybe_pause_reading(self) -> None:
        frames = self._frames
        holds = frames or self._request_bytes or self._reader.partial
        if not (holds or self._read_paused or self._is_kept_waiting):
            return  # nothing is held, and nothing was
        may_read = not holds or self._note_requests()
        transport = self._transport
        if transport is None or self._is_ending or self.is_closing:
            return
        pause = not may_read or self._is_kept_waiting or bool(frames)
        if pause and not self._read_paused:
            transport.pause_reading()
        elif not pause and self._read_paused:
            transport.resume_reading()
        self._read_paused = pause

    def _note_requests(self) -> bool:
        """Account for the requests this connection holds; return whether it may read more, given what all connections
        hold."""
        reader, frames = self._reader, self._frames
        held_bytes = len(reader.partial)
        if frames:
            # All but the first are in the chunk received last; only the first may have spanned several.
            first, last = frames[0], frames[-1]
            held_bytes += _buffer_bytes(first) + (_buffer_bytes(last) if last.obj is not first.obj else 0)
        self._request_bytes = held_bytes
        return self._open_connections.requests.note(self, held_bytes, reader.missing_bytes)

    def _throttle(self, wait_ms: int) -> None:
        """Read no more of a client that is above a quota, and start none of its requests, for this time (KIP-219)."""
        monotonic_ms = self.broker.clock.monotonic_ms()
        self._throttled_until_ms = max(self._throttled_until_ms, monotonic_ms + wait_ms)
        if self._throttle_timer is None:
            self._throttle_timer = self.broker.scheduler.call_later(wait_ms, self._end_throttle)
            self.broker.scheduler.call_soon(self._maybe_pause_reading)

    def _end_throttle(self) -> None:
        left_ms = self._throttled_until_ms - self.broker.clock.monotonic_ms()
        if left_ms > 0:
            self._throttle_timer = self.broker.scheduler.call_later(left_ms, self._end_throttle)
            return
        self._throttle_timer = None
        self.has_moved = True
        self._pump()
        self._maybe_pause_reading()

    # --- ending -------------------------------------------------------------------------------------------------------

    def _end(self, reason: str | None) -> None:
        """Read no more; close for `reason` once all received requests are answered."""
        if not self._is_ending:
            self._is_ending = True
            self._end_reason = reason
            self._reader.drop()
            self._note_requests()
            if self._transport is not None and not self._read_paused:
                self._transport.pause_reading()

    def end(self, reason: str) -> None:
        """Take no more requests, and close for `reason` (logged) once the started ones are answered."""
        self._frames.clear()
        self._end(reason)

    def finish(self) -> None:
        """Start no more requests, as the broker stops, and close once the started ones are answered. Held ones (a
        fetch, a JoinGroup) may take long, and their clients lose nothing by retrying."""
        self._frames.clear()
        if self._exchanges and self._exchanges[-1].holds:
            self._exchanges.pop()
            self._peer.disconnect()
        self._hangs_up = self.has_moved and not self._is_ending
        self._end(None)
        self._pump()

    def _hang_up(self) -> None:
        """Close our side only, and drop what still comes until the client closes its own. To close a socket with bytes
        that are not read resets it, and a client that meets the reset while it sends never reads its last answers."""
        transport = self._transport
        if transport is None or self.is_closing:
            return
        self.is_closing = True
        self._forget()
        transport.write_eof()
        transport.resume_reading()
        self.broker.scheduler.call_later(_HANG_UP_MS, transport.close)

    def close(self, reason: str | None = None) -> None:
        """Close for `reason` (logged) or because the broker stops (silently); completed responses are still sent."""
        if self._transport is None or self.is_closing:
            return
        self.is_closing = True
        if reason is not None:
            self.broker.logger.warning(
                "connection.closed", peer=self._peer.address, listener=self._listener_name, reason=reason
            )
        self._forget()
        self._transport.close()

    def close_idle(self) -> None:
        self.broker.logger.info("connection.idle", peer=self._peer.address, listener=self._listener_name)
        if self._write_paused:
            self.abort()
        else:
            self.close()

    def close_for_memory(self, reason: str) -> None:
        broker = self.broker
        broker.metrics.connections_closed_slow += 1
        broker.logger.warning("connection.closed", peer=self._peer.address, listener=self._listener_name, reason=reason)
        self.abort()

    def abort(self) -> None:
        self.is_closing = True
        self._write_paused = False
        self._forget()
        if self._transport is not None:
            self._transport.abort()

    def _forget(self) -> None:
        if self._throttle_timer is not None:  # it may be days, and would keep this connection in memory
            self._throttle_timer.cancel()
            self._throttle_timer = None
        self._frames.clear()
        self._exchanges.clear()
        self._output.clear()
        self._reader.drop()
        self._waiting_bytes = 0
        self.note_answers()
        self._note_requests()
        self._peer.disconnect()


def _dispatch_nothing(_frame: memoryview, _peer: Peer) -> Exchange:
    raise CloseConnection("the connection has ended")


def _buffer_bytes(frame: memoryview) -> int:
    """Return the size of the whole buffer that a frame keeps alive."""
    return len(cast(Sized, frame.obj))


def _write_parts(transport: asyncio.Transport, output: Parts) -> None:
    """Record data goes to the socket unchanged; headers around it are joined, since each write costs more."""
    small: Parts = []
    for part in output:
        if len(part) >= _LARGE_PART_BYTES:
            if small:
                transport.write(b"".join(small))
                small = []
            transport.write(part)
        else:
            small.append(part)
    if small:
        transport.write(b"".join(small))
