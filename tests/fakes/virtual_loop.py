"""An event loop whose time passes when nothing else is left to do, and whose connections lead to one broker in memory,
which answers as its test says, or does not.

Owns: the clock, the connections, the bytes. Does not own: what the broker says. A wait of an hour takes no time, so a
test can measure to the millisecond what a client waits for.
"""

import asyncio
import errno
import math
import selectors
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, TypeVar, cast

from oncelog.client.values.waiting import resolve
from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.frames import FrameReader
from oncelog.protocol.generated.api_versions_response import ApiVersion, ApiVersionsResponse
from oncelog.protocol.headers import decode_request_header, encode_response_header
from tests.fakes.budget import Budget
from tests.support.requests.feeding import written

HIGH_WATER_BYTES = 64 << 10
"""Unread bytes of a connection above which its client is asked to pause, as asyncio's transports do."""
T = TypeVar("T")
P = ParamSpec("P")
Answers = Mapping[ApiKey, Callable[[Any], Any]]
"""The response to a request, by API; None for silence."""


_TURN_S = 1e-9


class _Selector(selectors.DefaultSelector):
    """Instead of waiting, it moves the clock."""

    now_s = 0.0
    until_s = math.inf
    """Where the clock stops, and the loop with it."""

    def __init__(self, stop: Callable[[], None]) -> None:
        super().__init__()
        self._stop = stop
        self.budget = Budget()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        self.budget.spend("a turn of the event loop")
        if not events:
            due_s = math.inf if timeout is None else self.now_s + timeout
            if timeout != 0 and due_s > self.until_s:
                self.now_s = max(self.now_s, self.until_s)
                self._stop()
            elif timeout is None:
                raise RuntimeError("nothing will ever happen again")
            else:
                # A turn takes time too: a deadline that is nearer than the resolution of asyncio's clock passes.
                self.now_s = max(due_s, self.now_s + _TURN_S)
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, broker: "ScriptedBroker | None" = None) -> None:
        """Without a broker it is the one that is made while the loop runs."""
        self._virtual = _Selector(self.stop)
        self._broker = broker
        super().__init__(self._virtual)

    @property
    def broker(self) -> "ScriptedBroker":
        if self._broker is None:
            raise RuntimeError("a client connects before there is a broker")
        return self._broker

    @broker.setter
    def broker(self, broker: "ScriptedBroker") -> None:
        self._broker = broker

    def time(self) -> float:
        return self._virtual.now_s

    def run_to(self, until_s: float) -> None:
        """Let the time pass until then, and everything that is due in it happen."""
        self._virtual.until_s = until_s
        self._virtual.budget.refill()
        self.run_forever()

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Any, host: str, *_: Any, ssl: Any = None, **__: Any
    ) -> Any:
        if ssl is not None:
            raise ConnectionResetError(errno.ECONNRESET, "a listener without TLS")
        broker = self.broker
        if host in broker.refusing:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        if host in broker.unreachable:
            await self.create_future()
        protocol = protocol_factory()
        transport = broker.connect(self, protocol)
        transport.host = host
        transport.is_silent = host in broker.silent
        broker.connections.append(transport)
        broker.connect_count += 1
        protocol.connection_made(transport)
        return transport, protocol


class ScriptedBroker:
    """Node 0 at host:1, for the connections of the virtual loop in which it is made. `answers` and `delays_s` may be
    changed at any time."""

    def __init__(self, answers: Answers) -> None:
        self.answers = dict(answers)
        self.delays_s: dict[ApiKey, float] = {}
        """How long a response takes, if it takes any time, by API."""
        self.reads = True
        """False: it stays connected and reads nothing, until `read_on`."""
        self.silent: set[str] = set()
        """Hosts that accept connections, over which nothing passes."""
        self.unreachable: set[str] = set()
        """Hosts that do not answer a connection."""
        self.refusing: set[str] = set()
        """Hosts where nothing listens."""
        self.withheld: dict[str, set[ApiKey]] = {}
        """APIs whose requests a host does not answer, by host."""
        self.connections: list[Connection] = []
        self.connect_count = 0
        self.asked_host = ""
        """The host whose request is being answered."""
        self.seen: list[tuple[ApiKey, Any]] = []
        loop = asyncio._get_running_loop()
        if isinstance(loop, VirtualLoop):
            loop.broker = self

    def connect(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol) -> "Connection":
        return Connection(loop, protocol, self)

    @property
    def open_count(self) -> int:
        return sum(not each.is_closing() for each in self.connections)

    def silence(self) -> None:
        """Nothing passes any more over the connections that are open: a host between has forgotten them all."""
        for each in self.connections:
            each.is_silent = True

    def read_on(self) -> None:
        self.reads = True
        for each in self.connections:
            each.drain()

    def count(self, key: ApiKey) -> int:
        return sum(each == key for each, _ in self.seen)

    def answer(self, frame: memoryview) -> bytes | None:
        key = ApiKey(int.from_bytes(frame[:2], "big"))
        request_codec, response_codec = (_codec(key, kind) for kind in ("request", "response"))
        flexible_from = request_codec.FLEXIBLE_FROM if request_codec.FLEXIBLE_FROM is not None else 1 << 15
        header, position = decode_request_header(frame, flexible_from)
        request, _ = request_codec.decode(frame, header.api_version, position)
        self.seen.append((key, request))
        response = self._versions() if key not in self.answers and key is ApiKey.API_VERSIONS else None
        if key in self.answers:
            response = self.answers[key](request)
        if response is None:
            return None
        is_flexible = key is not ApiKey.API_VERSIONS and header.api_version >= flexible_from
        body = b"".join(map(bytes, response_codec.encode(response, header.api_version)))
        return encode_response_header(header.correlation_id, is_flexible) + body

    def _versions(self) -> ApiVersionsResponse:
        offered = [ApiVersion(key, 0, _codec(key, "request").VERSIONS.stop - 1) for key in self.answers]
        return ApiVersionsResponse(api_keys=offered)


def _codec(key: ApiKey, kind: str) -> Any:
    return import_module(f"oncelog.protocol.generated.{key.name.lower()}_{kind}")


class Connection(asyncio.Transport):
    """The client's end."""

    def __init__(self, loop: VirtualLoop, protocol: asyncio.BufferedProtocol, broker: ScriptedBroker) -> None:
        super().__init__()
        self.is_silent = False
        self.host = ""
        self._loop = loop
        self._protocol = protocol
        self._broker = broker
        self._reader = FrameReader(1 << 20)
        self._is_closing = False
        self._unread = bytearray()
        self._due_s = 0.0

    @property
    def unread_bytes(self) -> int:
        return len(self._unread)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": "client", "peername": "broker"}.get(name, default)

    def write(self, data: Any) -> None:
        if self.is_silent or self._is_closing:
            return
        if not self._broker.reads:
            was_full = len(self._unread) > HIGH_WATER_BYTES
            self._unread += data
            if not was_full and len(self._unread) > HIGH_WATER_BYTES:
                self._protocol.pause_writing()
            return
        self._take(bytes(data))

    def drain(self) -> None:
        was_full = len(self._unread) > HIGH_WATER_BYTES
        unread, self._unread = bytes(self._unread), bytearray()
        if not self._is_closing:
            self._take(unread)
            if was_full:
                self._protocol.resume_writing()

    def _take(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._on_request(frame)

    def _on_request(self, frame: memoryview) -> None:
        self._broker.asked_host = self.host
        answer = self._broker.answer(frame)
        if answer is None or self._broker.seen[-1][0] in self._broker.withheld.get(self.host, ()):
            return
        self._respond(answer, self._broker.delays_s.get(self._broker.seen[-1][0], 0.0))

    def _respond(self, answer: bytes, delay_s: float) -> None:
        """Responses come in the order of their requests."""
        self._due_s = max(self._due_s + _TURN_S, self._loop.time() + delay_s)
        self._loop.call_at(self._due_s, self._receive, answer)

    def _receive(self, data: bytes) -> None:
        if not self.is_silent and not self._is_closing:
            framed = len(data).to_bytes(4, "big") + data
            for count in written(lambda: memoryview(self._protocol.get_buffer(-1)), framed):
                self._protocol.buffer_updated(count)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, None)

    abort = close


def virtually(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run a test in a virtual loop, where its connections lead to the broker that it makes."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with asyncio.Runner(loop_factory=lambda: cast(asyncio.AbstractEventLoop, VirtualLoop())) as runner:
            return runner.run(test(*args, **kwargs))

    return run


def run_virtually(broker: ScriptedBroker, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    with asyncio.Runner(loop_factory=lambda: cast(asyncio.AbstractEventLoop, VirtualLoop(broker))) as runner:
        return runner.run(main())


async def pass_time(duration_s: float) -> None:
    """Let the time pass, and everything that is due in it happen."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(duration_s, resolve, passed, None)
    await passed
