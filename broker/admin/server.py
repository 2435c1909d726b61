"""HTTP on loopback: requests in, JSON out, and one stream of events per listener.

Owns: connections, their bounds, access control. Does not own: what a path does (`routes`).
Invariants
- Only this machine has access: the address is loopback, and the Host header must name it, so that no web page reaches
  it under its own name (DNS rebinding). A request that changes something must be declared as JSON, and an Origin of
  another site is rejected: a browser's preflight request fails.
- Everything has a limit: connections, header and body, the time to send them, the events that wait for a slow reader.
"""

import asyncio
import json
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from oncelog.broker.admin.messages import AdminRequest, EventStream, HttpError, Response
from oncelog.broker.admin.routes import Routes
from oncelog.broker.config.admin_address import is_admin_host
from oncelog.broker.faults.events import KEPT, Event
from oncelog.broker.faults.faults import Faults

MAX_CONNECTIONS = 64
MAX_BODY_BYTES = 65_536
MAX_HEADER_BYTES = 16_384
IDLE_S = 60.0
_READ_BYTES = 8_192
_JSON = b"application/json"
_PORT = re.compile(r":[0-9]*\Z")


class AdminServer:
    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._routes = Routes(faults)
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
            await _Connection(self._faults, self._routes, reader, writer).run()
        except (OSError, TimeoutError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the client has disconnected, or is rejected
        finally:
            self._connections.discard(task)
            writer.close()


class _Connection:
    def __init__(
        self, faults: Faults, routes: Routes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._faults = faults
        self._routes = routes
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
                outcome = await self._routes.serve(request)
            except HttpError as error:
                outcome = Response(error.status, {"error": str(error)})
            except h11.RemoteProtocolError as error:
                # Its hint is the HTTP status: 400, 413 (body) or 431 (headers).
                await self._answer(Response(error.error_status_hint, {"error": str(error)}))
                return
            if isinstance(outcome, EventStream):
                await self._stream(outcome)
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

    def _check(self, method: str, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"")
        name = _PORT.sub("", host.decode("latin-1")).removeprefix("[").removesuffix("]")
        if name != "localhost" and not is_admin_host(name):
            raise HttpError(403, "the Host header does not name this machine")
        if headers.get(b"origin") not in (None, b"http://" + host):
            raise HttpError(403, "web pages of other sites are not served")
        media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if method not in ("GET", "HEAD") and media_type != _JSON:
            raise HttpError(415, "send Content-Type: application/json")

    async def _answer(self, answer: Response) -> None:
        body = json.dumps(answer.body, indent=2).encode() + b"\n"
        headers = [
            ("Content-Type", "application/json"),
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

    async def _stream(self, wanted: EventStream) -> None:
        """Until the client disconnects, or leaves too many events unread."""
        waiting: asyncio.Queue[Event] = asyncio.Queue()
        for event in self._faults.events.since(wanted.since):
            waiting.put_nowait(event)
        stop = self._faults.events.listen(waiting.put_nowait)
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
