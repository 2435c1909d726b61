"""Clients of an HTTP port that are slow, silent, greedy or many: each is bounded, and others are served."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from oncelog.broker.admin.access import Access
from oncelog.broker.admin.http import MAX_CONNECTIONS, HttpServer, Patience
from oncelog.broker.admin.messages import AdminRequest, EventStream, Response
from oncelog.broker.admin.token import Token
from oncelog.broker.config.admin_address import HttpAddress
from oncelog.broker.faults.events import KEPT, Events
from oncelog.broker.system.clock import SystemClock
from tests.support.security.certificates import Certificates

SECRET = "0123456789abcdef-secret"
LONG = Patience(60, 60, 60, 60, 60)
HEAD = b"Host: localhost\r\nAuthorization: Bearer " + SECRET.encode() + b"\r\n"
JSON = b"Content-Type: application/json\r\n"


class Lines:
    """A log."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def __getattr__(self, level: str) -> Callable[..., None]:
        return lambda event, **facts: self.written.append(f"{level} {event} {facts}")


class Served:
    def __init__(self) -> None:
        self.requests: list[AdminRequest] = []
        self.log = Lines()
        self.events = Events(SystemClock())
        self.port = 0

    async def serve(self, request: AdminRequest) -> Response | EventStream:
        self.requests.append(request)
        match request.path:
            case ("large",):
                return Response(200, b"x" * 50_000_000, "text/plain")
            case ("events",):
                return EventStream(0)
        return Response(200, {"path": request.path})

    async def ask(self, data: bytes) -> bytes:
        """Everything that is sent for these bytes until the port closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            return await reader.read()
        finally:
            writer.close()


async def everything(reader: asyncio.StreamReader) -> bytes:
    """Read until the connection ends, in whichever way."""
    data = b""
    with suppress(ConnectionResetError):
        while piece := await reader.read(1_000_000):
            data += piece
    return data


@asynccontextmanager
async def serving(patience: Patience = LONG, context: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    served = Served()
    access = Access("admin", HttpAddress("127.0.0.1", 0, context is not None), Token(SECRET.encode()))
    server = HttpServer(served.serve, access, served.log, served.events, lambda: context, patience)
    _, served.port = await server.start("127.0.0.1", 0)
    try:
        yield served
    finally:
        await server.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"POST / HTTP/1.1\r\n" + HEAD + JSON + b"Content-Length: 5\r\n\r\n12",
    ],
    ids=["nothing", "half a line", "half a head", "half a body"],
)
async def test_a_request_that_does_not_come_ends_its_connection(sent: bytes) -> None:
    async with serving(LONG._replace(request_s=0.05)) as served:
        assert await served.ask(sent) == b""
        assert served.requests == []


async def test_a_connection_that_is_silent_after_its_answer_is_closed() -> None:
    async with serving(LONG._replace(idle_s=0.05)) as served:
        assert (await served.ask(b"GET / HTTP/1.1\r\n" + HEAD + b"\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_client_that_reads_nothing_is_cut_off() -> None:
    async with serving(LONG._replace(answer_s=0.05)) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1)
        writer.write(b"GET /large HTTP/1.1\r\n" + HEAD + b"\r\n")
        while not served.requests:
            await asyncio.sleep(0)
        for _ in range(MAX_CONNECTIONS):  # more than there is room for, if the first kept its place for ever
            assert (await served.ask(b"GET / HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n")).startswith(
                b"HTTP/1.1 2"
            )
        assert len(await everything(reader)) < 50_000_000


async def test_a_reader_of_events_that_reads_none_holds_no_more_than_are_kept() -> None:
    async with serving() as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port, limit=1)
        writer.write(b"GET /events HTTP/1.1\r\n" + HEAD + b"\r\n")
        await reader.readexactly(12)
        for _ in range(3 * KEPT):
            served.events.append("x", filler="y" * 10_000)
            await asyncio.sleep(0)
        assert len(await everything(reader)) < 3 * KEPT * 10_000


async def test_half_open_handshakes_end_and_make_way(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server_path)
    async with serving(LONG, context) as served:
        silent = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(MAX_CONNECTIONS + 5)]
        trusting = ssl.create_default_context(cafile=certificates.authority_path)
        reader, writer = await asyncio.open_connection("localhost", served.port, ssl=trusting, family=2)
        writer.write(b"GET / HTTP/1.1\r\nConnection: close\r\n" + HEAD + b"\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        for each in silent[:6]:
            assert await each[0].read() == b""
        for _, each in [*silent, (reader, writer)]:
            each.close()
    async with serving(LONG._replace(handshake_s=0.05), context) as served:
        assert await served.ask(b"\x16\x03\x01") == b""
        assert not (await served.ask(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP")  # an alert of TLS, or nothing
        assert served.requests == []


async def test_pipelined_requests_are_answered_in_order_and_one_without_access_ends_them() -> None:
    async with serving() as served:
        first, second = (b"GET /%d HTTP/1.1\r\n" % number + HEAD + b"\r\n" for number in (1, 2))
        refused = b"GET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answered = await served.ask(first + second + refused + first)
        assert [request.path for request in served.requests] == [("1",), ("2",)]
        assert answered.count(b"HTTP/1.1 200") == 2 and answered.count(b"HTTP/1.1 401") == 1
        assert answered.count(b"WWW-Authenticate: Bearer") == 1


async def test_without_access_no_body_is_waited_for() -> None:
    async with serving() as served:
        head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
        assert (await served.ask(head)).startswith(b"HTTP/1.1 401")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\n" + HEAD + b"X: " + b"x" * 40_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 40_000 + b" HTTP/1.1\r\n" + HEAD + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"".join(b"X%d: y\r\n" % each for each in range(3_000)) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n" + HEAD + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12", 400),
        (b"CONNECT other:1 HTTP/1.1\r\n" + HEAD + b"\r\n", 400),
    ],
    ids=["a header", "a path", "many headers", "two hosts", "two lengths", "a proxy"],
)
async def test_a_head_that_is_too_large_or_ambiguous_is_refused(sent: bytes, status: int) -> None:
    async with serving() as served:
        assert (await served.ask(sent + b"\r\n")).startswith(b"HTTP/1.1 %d" % status)
        assert served.requests == []


async def test_the_log_names_the_principal_and_the_change_but_no_token() -> None:
    async with serving() as served:
        await served.ask(
            b"POST /faults/1%0ax?why=" + SECRET.encode() + b" HTTP/1.1\r\nContent-Type: application/json\r\n"
            b"Connection: close\r\n" + HEAD + b"\r\n"
        )
        for wrong in (b"Bearer " + SECRET.encode() + b"x", b"Basic " + SECRET.encode()):
            await served.ask(b"GET /a HTTP/1.1\r\nHost: localhost\r\nAuthorization: " + wrong + b"\r\n\r\n")
        await served.ask(b"GET / HTTP/1.1\r\nHost: " + SECRET.encode() + b"\r\n\r\n")
        change, *refusals = served.log.written
        assert change.startswith("info http.change") and "Token:admin" in change and "/faults/1\\\\nx" in change
        assert [line.split()[:2] for line in refusals] == [["warning", "http.refused"]] * 3
        assert SECRET not in "".join(served.log.written)
