"""HTTP: requests in, JSON or text out, and one stream of events per listener.

Owns: connections and their bounds. Does not own: what a path does (`routes`, `metrics_routes`), who has access
(`access`), keys and certificates (`broker.security.tls`).
Invariants
- Everything has a limit: connections, with those in their TLS handshake, header and body, the time to send them, the
  time to read a response, the events that wait for a slow reader.
- A request is refused before its path is looked at; the connection of one without access is closed.
- Nothing that a client sends is logged, but for what a change asks for: the method and the path.
"""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from oncelog.broker.admin.access import Access
from oncelog.broker.admin.messages import AdminRequest, EventStream, HttpError, Response
from oncelog.broker.config.admin_address import format_host_port
from oncelog.broker.config.listeners import ANY_V6
from oncelog.broker.faults.events import KEPT, Event, Events
from oncelog.broker.security.principal import Principal
from oncelog.protocol.printable import printable

MAX_CONNECTIONS = 64
MAX_BODY_BYTES = 65_536
MAX_HEADER_BYTES = 16_384
MOST_PATH = 300
_READ_BYTES = 8_192
_NO_ACCESS = (401, 403)
_FULL_PAUSE_S = 1.0
"""How long to accept nothing after the system had no descriptor for a connection."""

Serve = Callable[[AdminRequest], Awaitable[Response | EventStream]]
"""Answers a request, or raises HttpError."""
CurrentContext = Callable[[], ssl.SSLContext | None]
"""Returns the TLS context for the next connection; None for plain text."""


class Patience(NamedTuple):
    """How long a client may take, in seconds."""

    handshake_s: float = 10.0
    request_s: float = 10.0
    """The time to send the first request after connecting, and each request from its first byte."""
    goodbye_s: float = 5.0
    """The time to end TLS."""
    idle_s: float = 60.0
    """The time between two requests."""
    answer_s: float = 30.0
    """The time to read a response."""


PATIENCE = Patience()


class HttpServer:
    def __init__(
        self,
        serve: Serve,
        access: Access,
        log: Any,
        events: Events | None = None,
        context: CurrentContext = lambda: None,
        patience: Patience = PATIENCE,
    ) -> None:
        """`events` are what an EventStream streams."""
        self.serve = serve
        self.access = access
        self.log = log
        self.events = events
        self.patience = patience
        self._context = context
        self._listening: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """The idle connections, the longest idle first: one is closed when there are too many connections."""

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address it listens on. Raises OSError."""
        self._listening = await _listen(host, port)
        self._accepting = asyncio.ensure_future(self._accept(self._listening))
        bound: tuple[str, int] = self._listening.getsockname()[:2]
        return bound

    def answer_as(self, other: "HttpServer") -> None:
        """Be another one from now on, but for the sockets."""
        self.serve, self.access, self.log, self.events = other.serve, other.access, other.log, other.events
        self._context = other._context

    async def close(self) -> None:
        if self._accepting is None or self._listening is None:
            return
        running = [self._accepting, *self._connections]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._listening.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(_FULL_PAUSE_S)
                continue
            if len(self._connections) >= MAX_CONNECTIONS:
                oldest = next(iter(self._silent), None)
                if oldest is None:
                    accepted.close()
                    continue
                del self._silent[oldest]
                oldest.cancel()
            task = loop.create_task(self._serve_one(accepted, format_host_port(*peer[:2])))
            self._connections.add(task)
            self._silent[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._connections.discard(task)
        self._silent.pop(task, None)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Count the connection of the current task as idle while it waits for a request."""
        task = asyncio.current_task()
        if task is not None:
            self._silent[task] = None
        yield
        if task is not None:
            self._silent.pop(task, None)

    async def _serve_one(self, accepted: socket.socket, peer: str) -> None:
        reader = asyncio.StreamReader(limit=_READ_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        loop, context = asyncio.get_running_loop(), self._context()
        waits = {"ssl_handshake_timeout": self.patience.handshake_s, "ssl_shutdown_timeout": self.patience.goodbye_s}
        try:
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, accepted, ssl=context, **(waits if context else {})
            )
        except (OSError, asyncio.CancelledError):  # the handshake has failed, or took too long
            accepted.close()
            return
        transport.set_write_buffer_limits(high=0)  # so that draining is until everything is sent
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        try:
            with contextlib.suppress(OSError, TimeoutError, h11.RemoteProtocolError, asyncio.CancelledError):
                # Any of them: the client has disconnected, is too slow, or is rejected.
                await _Connection(self, reader, writer, peer).run()
                writer.close()
        finally:
            if not writer.is_closing():
                transport.abort()  # whatever it has not read


async def _listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    if host in ("", ANY_V6) and socket.has_dualstack_ipv6():
        listening = socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    else:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        listening = socket.create_server(address, family=family)  # of IPv6 with its zone
    listening.setblocking(False)
    return listening


class _Connection:
    def __init__(
        self, server: HttpServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str
    ) -> None:
        self._server = server
        self._patience = server.patience
        self._reader = reader
        self._writer = writer
        self._peer = peer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._is_head = False

    async def run(self) -> None:
        http, may_wait_s = self._http, self._patience.request_s
        while True:
            try:
                request = await self._next_request(may_wait_s)
                if request is None:
                    return
                outcome = await self._serve(request)
            except HttpError as error:
                outcome = Response(error.status, {"error": str(error)})
            except h11.RemoteProtocolError as error:
                # Its hint is the HTTP status: 400, 413 (body) or 431 (headers).
                await self._answer(Response(error.error_status_hint, {"error": str(error)}))
                return
            if isinstance(outcome, EventStream):
                if self._server.events is not None:
                    await self._stream(outcome, self._server.events)
                return
            await self._answer(outcome)
            is_over = http.our_state is not h11.DONE or http.their_state is not h11.DONE
            if is_over or outcome.status in _NO_ACCESS:
                return
            http.start_next_cycle()
            may_wait_s = self._patience.idle_s

    async def _serve(self, request: AdminRequest) -> Response | EventStream:
        if request.method not in ("GET", "HEAD"):
            self._server.log.info(
                "http.change",
                principal=str(request.principal),
                peer=self._peer,
                method=request.method,
                path=printable("/" + "/".join(request.path))[:MOST_PATH],
            )
        return await self._server.serve(request)

    async def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event

    async def _next_request(self, may_wait_s: float) -> AdminRequest | None:
        """Return the next request; None when the client has disconnected. Raises HttpError, h11.RemoteProtocolError,
        TimeoutError."""
        if not self._http.trailing_data[0]:
            with self._server.silence():
                async with asyncio.timeout(may_wait_s):
                    data = await self._reader.read(_READ_BYTES)
                self._http.receive_data(data)
        async with asyncio.timeout(self._patience.request_s):
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            method = head.method.decode("ascii")
            self._is_head = method == "HEAD"
            principal = self._checked(method, head)
            body = bytearray()
            while isinstance(event := await self._next_event(), h11.Data):
                body += event.data
                if len(body) > MAX_BODY_BYTES:
                    raise HttpError(413, f"a body may have at most {MAX_BODY_BYTES} bytes")
        try:
            target = urlsplit(head.target.decode("ascii"))
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        headers = dict(head.headers)
        last_event = headers.get(b"last-event-id")
        return AdminRequest(
            method,
            tuple(unquote(part) for part in target.path.split("/") if part),
            dict(parse_qsl(target.query, keep_blank_values=True)),
            _parse(body),
            principal,
            None if last_event is None else last_event.decode("latin-1"),
        )

    def _checked(self, method: str, head: h11.Request) -> Principal:
        """Raises HttpError."""
        try:
            return self._server.access.check(method, head.target, list(head.headers))
        except HttpError as error:
            if error.status in _NO_ACCESS:
                self._server.log.warning("http.refused", peer=self._peer, reason=str(error))
            raise

    async def _answer(self, answer: Response) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body, indent=2).encode() + b"\n"
        headers = [
            ("Content-Type", answer.media_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if answer.status == 401:
            headers.append(("WWW-Authenticate", 'Bearer realm="oncelog"'))
        if self._http.their_state is not h11.DONE or answer.status in _NO_ACCESS:
            headers.append(("Connection", "close"))
        self._send(h11.Response(status_code=answer.status, headers=headers))
        if not self._is_head:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        await self._drain()

    async def _drain(self) -> None:
        """Wait until the client has read everything. Raises TimeoutError."""
        async with asyncio.timeout(self._patience.answer_s):
            await self._writer.drain()

    def _send(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)

    async def _stream(self, wanted: EventStream, events: Events) -> None:
        """Send events until the client disconnects, or leaves too many of them unread."""
        waiting: asyncio.Queue[Event] = asyncio.Queue()
        for event in events.since(wanted.since):
            waiting.put_nowait(event)

        def on_event(event: Event) -> None:
            if waiting.qsize() < KEPT:
                waiting.put_nowait(event)
            else:
                self._writer.transport.abort()

        stop = events.listen(on_event)
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            headers = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
            self._send(h11.Response(status_code=200, headers=headers))
            while not gone.done():
                following = asyncio.ensure_future(waiting.get())
                await asyncio.wait((following, gone), return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    return
                event = following.result()
                text = f"id: {event['number']}\ndata: {json.dumps(event)}\n\n"
                self._send(h11.Data(data=text.encode()))
                await self._drain()
        finally:
            stop()
            gone.cancel()


def _parse(body: bytearray) -> dict[str, Any]:
    if not body:
        return {}
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"the body is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise HttpError(400, "the body must be a JSON object")
    return values
