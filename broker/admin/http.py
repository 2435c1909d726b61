"""HTTP: requests in, JSON or text out, and one stream of events per listener.

Owns: connections and their bounds. Does not own: what a path does (`routes`, `metrics_routes`), who has access
(`server`). Invariant: everything has a limit: connections, header and body, the time to send them, the events that wait
for a slow reader.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from oncelog.broker.admin.messages import AdminRequest, EventStream, HttpError, Response
from oncelog.broker.faults.events import KEPT, Event, Events

MAX_CONNECTIONS = 64
MAX_BODY_BYTES = 65_536
MAX_HEADER_BYTES = 16_384
IDLE_S = 60.0
_READ_BYTES = 8_192

Serve = Callable[[AdminRequest], Awaitable[Response | EventStream]]
"""Raises HttpError."""
Check = Callable[[str, Mapping[bytes, bytes]], None]
"""Of a method and headers: raises HttpError if they are refused."""


class HttpServer:
    def __init__(self, serve: Serve, check: Check | None = None, events: Events | None = None) -> None:
        """`events` are what an EventStream streams."""
        self._serve = serve
        self._check = check
        self._events = events
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Returns the address it listens on. Raises OSError."""
        self._server = await asyncio.start_server(self._accept, host, port, limit=_READ_BYTES)
        bound: tuple[str, int] = self._server.sockets[0].getsockname()[:2]
        return bound

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        self._connections.add(task)
        try:
            await _Connection(self._serve, self._check, self._events, reader, writer).run()
        except (OSError, TimeoutError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client has disconnected, or is rejected
        finally:
            self._connections.discard(task)
            writer.close()


class _Connection:
    def __init__(
        self,
        serve: Serve,
        check: Check | None,
        events: Events | None,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._serve = serve
        self._check = check
        self._events = events
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEADER_BYTES)
        self._is_head = False

    async def run(self) -> None:
        http = self._http
        while True:
            try:
                async with asyncio.timeout(IDLE_S):
                    request = await self._next_request()
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
                if self._events is not None:
                    await self._stream(outcome, self._events)
                return
            await self._answer(outcome)
            if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                return
            http.start_next_cycle()

    async def _next_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ_BYTES))
        return event

    async def _next_request(self) -> AdminRequest | None:
        """None when the client has disconnected. Raises HttpError, h11.RemoteProtocolError."""
        head = await self._next_event()
        if not isinstance(head, h11.Request):
            return None
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > MAX_BODY_BYTES:
                raise HttpError(413, f"a body may have at most {MAX_BODY_BYTES} bytes")
        headers = dict(head.headers)
        method = head.method.decode("ascii")
        self._is_head = method == "HEAD"
        if self._check is not None:
            self._check(method, headers)
        try:
            target = urlsplit(head.target.decode("ascii"))
        except ValueError as error:
            raise HttpError(400, str(error)) from error
        last_event = headers.get(b"last-event-id")
        return AdminRequest(
            method,
            tuple(unquote(part) for part in target.path.split("/") if part),
            dict(parse_qsl(target.query, keep_blank_values=True)),
            _parse(body),
            None if last_event is None else last_event.decode("latin-1"),
        )

    async def _answer(self, answer: Response) -> None:
        body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body, indent=2).encode() + b"\n"
        headers = [
            ("Content-Type", answer.media_type),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))
        self._send(h11.Response(status_code=answer.status, headers=headers))
        if not self._is_head:
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        await self._writer.drain()

    def _send(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)

    async def _stream(self, wanted: EventStream, events: Events) -> None:
        """Until the client disconnects, or leaves too many events unread."""
        waiting: asyncio.Queue[Event] = asyncio.Queue()
        for event in events.since(wanted.since):
            waiting.put_nowait(event)
        stop = events.listen(waiting.put_nowait)
        gone = asyncio.ensure_future(self._reader.read(1))
        try:
            headers = [("Content-Type", "text/event-stream"), ("Cache-Control", "no-store")]
            self._send(h11.Response(status_code=200, headers=headers))
            while not gone.done() and waiting.qsize() <= KEPT:
                following = asyncio.ensure_future(waiting.get())
                await asyncio.wait((following, gone), return_when=asyncio.FIRST_COMPLETED)
                if not following.done():
                    following.cancel()
                    return
                event = following.result()
                text = f"id: {event['number']}\ndata: {json.dumps(event)}\n\n"
                self._send(h11.Data(data=text.encode()))
                await self._writer.drain()
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
