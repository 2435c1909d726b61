"""A broker on virtual time behind connections without sockets, played to from a list of actions, and watched.

Owns: what must hold whatever bytes come (`Wrong` says what did not). Does not own: which bytes (`search`).

- No handler raises, nothing else does either: each unexpected exception is logged as `request.failed`.
- Answers go to the connection that asked, in the order of its requests, in the version that was asked, whole.
- A connection that was closed is told nothing more.
- A turn takes no longer, and memory grows no further, than bounds that follow from the bytes that came.
- A good client beside it gets, byte for byte, what it would get alone, before and after a stop of any kind.
"""

import time
import tracemalloc
from collections import deque
from contextlib import suppress
from importlib import import_module
from random import Random
from typing import Any

from broker.api_table import API_TABLE
from broker.dispatch import Dispatcher
from broker.net.connection import Connection
from protocol.api_keys import ApiKey
from protocol.errors import ProtocolError
from protocol.frames import FrameReader
from protocol.headers import decode_request_header, decode_response_header
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.fuzz.canary import Canary

Action = list[Any]
"""["open", name], ["bytes", name, hex], ["pause" | "resume" | "close", name], ["pass", ms], ["canary"], ["stop", seed]
(0: kill -9; otherwise the power goes)."""

_SECONDS_A_TURN = 0.4
_SECONDS_A_BYTE = 20e-6
_BYTES_A_TURN = 48 << 20
_BYTES_A_BYTE = 400


class Wrong(Exception):
    """Something that must hold did not."""


class _Log:
    """Keeps what was logged as an error, drops the rest."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def error(self, event: str, **values: Any) -> None:
        self.errors.append(values.get("exc_info") or f"{event} {values}")

    def warning(self, event: str, **values: Any) -> None: ...

    info = debug = warning


class FakeTransport:
    """What a connection writes, and whether it still may."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.written: list[bytes] = []
        self.is_closed = False
        self.reads = True

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "10.0.0.9", 4_000

    def write(self, data: Any) -> None:
        if self.is_closed:
            raise Wrong("a closed connection is written to")
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def close(self) -> None:
        self.is_closed = True


class Client:
    """One connection: what was sent and is to be answered, and what came."""

    def __init__(self, virtual: VirtualBroker, dispatcher: Dispatcher, opened: set[Connection]) -> None:
        self.connection = Connection(virtual.broker, dispatcher, "PLAINTEXT", (HOST, PORT), opened)
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self._sent = FrameReader(virtual.broker.config.get_int("socket.request.max.bytes"))
        self._received = FrameReader(1 << 31)
        self._asked: deque[tuple[int, int, int]] = deque()
        self._spoilt = False

    def send(self, data: bytes) -> None:
        try:
            for frame in self._sent.feed(data):
                self._expect(frame)
        except ProtocolError:
            self._spoilt = True
        self.connection.data_received(data)

    def _expect(self, frame: memoryview) -> None:
        """Whoever sends this is answered next, unless the connection is closed; with acks=0 there is no answer."""
        api = API_TABLE.get(int.from_bytes(frame[:2], "big", signed=True))
        if api is None or len(frame) < 8:
            return
        request = import_module(f"protocol.generated.{api.name}_request")
        with suppress(ProtocolError):
            header, position = decode_request_header(frame, request.FLEXIBLE_FROM or 32_767)
            if api.key == ApiKey.PRODUCE and request.decode(frame, header.api_version, position)[0].acks == 0:
                return
            self._asked.append((api.key, header.api_version, header.correlation_id))

    def answers(self) -> list[Any]:
        """What has come since, decoded; raises Wrong if it is not an answer to what was asked."""
        written, self.transport.written = self.transport.written, []
        decoded = []
        for data in written:
            for frame in self._received.feed(data):
                decoded.append(self._answer(frame))
        if self.transport.is_closed and self._received.buffered_bytes:
            raise Wrong("half an answer was written")
        return decoded

    def _answer(self, frame: memoryview) -> Any:
        correlation_id, _ = decode_response_header(frame, False)
        if not self._asked:
            raise Wrong(f"nobody asked {correlation_id}: {frame.hex()[:200]}")
        key, version, asked = self._asked.popleft()
        if asked != correlation_id:
            raise Wrong(f"{asked} was asked, the answer is to {correlation_id}")
        return decode_answer(frame, key, version)


def decode_answer(frame: memoryview, key: int, version: int) -> Any:
    api = API_TABLE[key]
    response = import_module(f"protocol.generated.{api.name}_response")
    if not api.minimum <= version <= api.maximum:
        version = 0  # only ApiVersions answers then
    flexible = response.FLEXIBLE_FROM is not None and version >= response.FLEXIBLE_FROM and key != 18
    _, position = decode_response_header(frame, flexible)
    message, end = response.decode(frame, version, position)
    if end != len(frame):
        raise Wrong(f"{len(frame) - end} bytes follow the answer to {api.name} {version}")
    return message


class Stage:
    """Plays actions; raises Wrong, or whatever the broker raises."""

    def __init__(self, settings: list[str], measures_memory: bool = False) -> None:
        self.virtual = VirtualBroker(*settings)
        self._measures_memory = measures_memory
        self.slowest: tuple[float, int, str] = (0.0, 0, "")
        self.largest: tuple[int, int, str] = (0, 0, "")
        self._canary = Canary()
        self._begin()

    def _begin(self) -> None:
        self._log = _Log()
        self.virtual.broker.log = self._log
        self._dispatcher = Dispatcher(self.virtual.broker)
        self._opened: set[Connection] = set()
        self.clients: dict[str, Client] = {}
        self._good = Client(self.virtual, self._dispatcher, self._opened)

    def play(self, action: Action) -> list[Any]:
        """The answers that came."""
        match action:
            case ["bytes", name, data]:
                return self._bytes(str(name), bytes.fromhex(data))
            case ["open", name]:
                self._hang_up(str(name))
                self.clients[str(name)] = Client(self.virtual, self._dispatcher, self._opened)
            case ["close", name]:
                self._hang_up(str(name))
            case ["pause" | "resume" as what, name]:
                client = self.clients.get(str(name))
                if client is not None and not client.transport.is_closed:
                    (client.connection.pause_writing if what == "pause" else client.connection.resume_writing)()
            case ["pass", delay_ms]:
                self._measured(lambda: self.virtual.let_pass(delay_ms), 0, f"{delay_ms} ms pass")
            case ["canary"]:
                self._canary.ask(self._good, self.virtual.time.settle)
            case ["stop", seed]:
                self._stop(seed)
        return self._look()

    def _bytes(self, name: str, data: bytes) -> list[Any]:
        client = self.clients.get(name)
        if client is None or client.transport.is_closed:
            client = self.clients[name] = Client(self.virtual, self._dispatcher, self._opened)

        def feed() -> None:
            client.send(data)
            self.virtual.time.settle()

        self._measured(feed, len(data), data[:400].hex())
        return self._look()

    def _look(self) -> list[Any]:
        if self._log.errors:
            error = self._log.errors[0]
            raise error if isinstance(error, BaseException) else Wrong(error)
        answers = []
        for name, client in list(self.clients.items()):
            answers += client.answers()
            if client.transport.is_closed:
                self._hang_up(name)
        if self._good.transport.is_closed:
            raise Wrong("the good client's connection was closed")
        return answers

    def _hang_up(self, name: str) -> None:
        client = self.clients.pop(name, None)
        if client is not None:
            client.connection.connection_lost(None)
            self.virtual.time.settle()

    def _stop(self, seed: int) -> None:
        for client in (*self.clients.values(), self._good):
            client.connection.connection_lost(None)
        self.virtual = self.virtual.crashed(seed) if seed else self.virtual.killed()
        self._begin()
        self._canary.ask(self._good, self.virtual.time.settle)

    def _measured(self, turn: Any, size_bytes: int, what: str) -> None:
        if self._measures_memory:
            tracemalloc.start()
            try:
                turn()
                grown = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            self.largest = max(self.largest, (grown, size_bytes, what))
            if grown > _BYTES_A_TURN + _BYTES_A_BYTE * size_bytes:
                raise Wrong(f"{size_bytes} bytes made the broker take {grown >> 20} MB: {what}")
            return
        start = time.thread_time()
        turn()
        seconds = time.thread_time() - start
        self.slowest = max(self.slowest, (seconds, size_bytes, what))
        if seconds > _SECONDS_A_TURN + _SECONDS_A_BYTE * size_bytes:
            raise Wrong(f"{size_bytes} bytes took {seconds:.2f} s: {what}")


def play_all(settings: list[str], actions: list[Action], measures_memory: bool = False) -> None:
    stage = Stage(settings, measures_memory)
    for action in actions:
        stage.play(action)


def crash_seed(source: Random) -> int:
    return source.choice((0, source.randrange(1, 1 << 30)))
