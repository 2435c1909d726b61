"""A broker on virtual time behind connections without sockets, played to from a list of actions, and watched.

Owns: what must hold whatever bytes come (`Wrong` says what did not). Does not own: which bytes (`search`).

- No handler raises, nothing else does either: each unexpected exception is logged as `request.failed`.
- Answers go to the connection that asked, in the order of its requests, in the version that was asked, whole.
- Nothing is written to a connection that was closed.
- A turn takes no longer, and memory grows no further, than bounds that follow from the bytes that came.
- A good client beside it gets, byte for byte, what it would get alone, before and after a stop of any kind.
- With an authorizer the others have no right at all: nothing that is the good client's shows in an answer to them, and
  nothing that they ask for is made.
"""

import time
import tracemalloc
from random import Random
from typing import Any

from oncelog.broker.net.connection import Connection
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.security.principal import Principal
from oncelog.protocol.topics import INTERNAL_TOPICS
from tests.fakes.broker import HOST, PORT, VirtualBroker
from tests.fuzz.canary import CAGE, TOPIC, Canary
from tests.fuzz.conversation import Conversation, TooSlow, Wrong
from tests.support.requests.garbage import collections_off

Action = list[Any]
"""["open", name], ["bytes", name, hex] (with a fourth "at once" the broker gets no turn before the next action),
["pause" | "resume" | "close", name], ["pass", ms], ["canary"], ["stop", seed] (0: kill -9; else the power goes)."""

_SECONDS_A_TURN = 0.4
_SECONDS_A_BYTE = 8e-6
_BYTES_A_TURN = 48 << 20
_BYTES_A_BYTE = 300


class _Log:
    """Keeps what was logged as an error, drops the rest."""

    def __init__(self) -> None:
        self.errors: list[Any] = []

    def error(self, event: str, **values: Any) -> None:
        self.errors.append(values.get("exc_info") or f"{event} {values}")

    def warning(self, event: str, **values: Any) -> None: ...

    info = debug = warning


class FakeTransport:
    """A transport that keeps what the connection writes, and refuses writes after its end."""

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

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Client:
    """One connection to a broker in memory."""

    def __init__(
        self, virtual: VirtualBroker, dispatcher: Dispatcher, opened: OpenConnections, *, is_outsider: bool = False
    ) -> None:
        """An outsider is a user without rights."""
        self.connection = Connection(virtual.broker, dispatcher, "PLAINTEXT", (HOST, PORT), opened)
        self.transport = FakeTransport(self.connection)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]
        self._is_outsider = is_outsider
        if is_outsider:
            self.connection._peer.principal = Principal("User", "outsider")
        self._conversation = Conversation(virtual.broker.config.get_int("socket.request.max.bytes"))

    def send(self, data: bytes) -> None:
        self._conversation.sent(data)
        self.connection.data_received(data)

    def answers(self) -> list[Any]:
        """Return the answers since the last call; raises Wrong if they are not what was asked for."""
        written, self.transport.written = self.transport.written, []
        if self._is_outsider and any(TOPIC.encode() in data for data in written):
            raise Wrong("an outsider is told of what it may not see")
        answers = [answer for data in written for answer in self._conversation.received(data)]
        if self.transport.is_closed and self._conversation.has_half_an_answer:
            raise Wrong("half an answer was written")
        return answers


class Stage:
    """Plays actions; raises Wrong, or whatever the broker raises."""

    def __init__(self, settings: list[str], measures_memory: bool = False) -> None:
        # The good client is silent for as long as the clock is moved.
        self.virtual = VirtualBroker("connections.max.idle.ms=-1", *settings)
        self._measures_memory = measures_memory
        self.slowest: tuple[float, int, str] = (0.0, 0, "")
        self.largest: tuple[int, int, str] = (0, 0, "")
        self._canary = Canary()
        self._begin()

    def _begin(self) -> None:
        self._log = _Log()
        self.virtual.broker.logger = self._log
        self._dispatcher = Dispatcher(self.virtual.broker)
        self._opened = OpenConnections(self.virtual.broker)
        self.clients: dict[str, Client] = {}
        self._good = Client(self.virtual, self._dispatcher, self._opened)

    def play(self, action: Action) -> list[Any]:
        """The answers that came."""
        match action:
            case ["bytes", name, data, *at_once]:
                return self._bytes(str(name), bytes.fromhex(data), bool(at_once))
            case ["open", name]:
                self._hang_up(str(name))
                self.clients[str(name)] = self._new_client()
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

    def _bytes(self, name: str, data: bytes, at_once: bool) -> list[Any]:
        client = self.clients.get(name)
        if client is None or client.transport.is_closed:
            client = self.clients[name] = self._new_client()

        def feed() -> None:
            client.send(data)
            if not at_once:
                self.virtual.time.settle()

        self._measured(feed, len(data), data[:400].hex())
        return self._look()

    def _new_client(self) -> Client:
        is_outsider = self.virtual.broker.authorizer is not None
        return Client(self.virtual, self._dispatcher, self._opened, is_outsider=is_outsider)

    def _look(self) -> list[Any]:
        if self._log.errors:
            error = self._log.errors[0]
            raise error if isinstance(error, BaseException) else Wrong(error)
        for log in self.virtual.broker.logs.logs:
            if log.offline_error is not None:
                raise Wrong(f"bytes of a client have taken a partition offline: {log.offline_error}")
        if self.virtual.broker.authorizer is not None:
            self._look_for_effects()
        answers = []
        for name, client in list(self.clients.items()):
            answers += client.answers()
            if client.transport.is_closed:
                self._hang_up(name)
        if self._good.transport.is_closed:
            raise Wrong("the good client's connection was closed")
        return answers

    def _look_for_effects(self) -> None:
        broker = self.virtual.broker
        made = {topic.name for topic in broker.topics.all()} - {TOPIC, CAGE, *INTERNAL_TOPICS}
        security = broker.metadata.state.security
        if made or security.acls or security.scram_credentials or security.quotas or security.tokens:
            raise Wrong(f"a request without the right to it had an effect: {made or vars(security)}")

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
        with collections_off():
            start = time.thread_time()
            turn()
            seconds = time.thread_time() - start
        self.slowest = max(self.slowest, (seconds, size_bytes, what))
        if seconds > _SECONDS_A_TURN + _SECONDS_A_BYTE * size_bytes:
            raise TooSlow(f"{size_bytes} bytes took {seconds:.2f} s: {what}")


def play_all(settings: list[str], actions: list[Action], measures_memory: bool = False) -> None:
    stage = Stage(settings, measures_memory)
    for action in actions:
        stage.play(action)


def crash_seed(source: Random) -> int:
    return source.choice((0, source.randrange(1, 1 << 30)))
