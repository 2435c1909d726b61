"""The memory of connections in simulation: clients that stall, dribble, pipeline, do not read, half-close and vanish.

Owns: the workload of one seed, in virtual time, over connections without sockets; and the independent count of what
they hold, which is the length of every buffer that can be found. Beside the others a few clients behave well: what
they ask, of any size, must be answered within `PATIENCE_MS`, retries after a refusal included.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from oncelog.broker.net.connection import Connection
from tests.clients.in_memory_connection import Server, Transport, fetch, metadata, produce
from tests.fakes.budget import names_its_seed
from tests.simulation.log_auditor import require

MIB, KIB = 1 << 20, 1 << 10
LIMIT, UNREAD_LIMIT, ALLOWANCE = 8 * MIB, 2 * MIB, 4 * MIB
SETTINGS = (
    f"queued.max.request.bytes={LIMIT}",
    f"oncelog.unread.answers.max.bytes={UNREAD_LIMIT}",
    f"socket.request.max.bytes={ALLOWANCE}",
    "queued.max.requests=20",
)
PATIENCE_MS = 10_000
_STEP_MS = 100
_PIECE = 64 * KIB
_RETRY_MS = 200
# Of a topic that does not exist: the answer is small, whatever the size of the request.
_SMALL, _MEDIUM, _LARGE, _LARGEST = (
    produce(1, "nowhere", value_bytes=size) for size in (10, 50 * KIB, 500 * KIB, 3 * MIB)
)


@dataclass
class Counts:
    """Counts of what happened while one seed ran."""

    served: int = 0
    closed: int = 0
    short_looks: int = 0
    unread_looks: int = 0
    slowest_ms: int = 0


@dataclass
class Line:
    """One connection, and what its client has still to send over it."""

    transport: Transport
    connection: Connection
    outbox: bytearray = field(default_factory=bytearray)
    step: Callable[["Line"], None] | None = None

    @property
    def is_open(self) -> bool:
        return not self.transport.is_closed


class ConnectionWorld:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.counts = Counts()
        self.server = Server(*SETTINGS)
        self.lines: list[Line] = []
        self._all_lines: list[Line] = []
        self._asked: dict[int, tuple[Line, int, int]] = {}
        setup = self.server.connect()
        self.server.send(setup, metadata(1, "t"))
        self.server.settle()
        for number in range(4):
            self.server.send(setup, produce(number, "t", value_bytes=200 * KIB))
            self.server.settle()
        setup.close()
        self._troubles = (
            self._stalls,
            self._stalls,
            self._dribbles,
            self._pipelines,
            self._pipelines_behind_a_wait,
            self._reads_slowly,
            self._half_closes,
        )

    # --- a life -------------------------------------------------------------------------------------------------------

    @names_its_seed
    def run(self, steps: int) -> Counts:
        for number in range(steps):
            if len(self.lines) < 60 and self.random.random() < 0.5:
                self.random.choice(self._troubles)()
            if number % 20 == 0:
                self._ask(number)
            if self.lines and self.random.random() < 0.05:
                self._vanish(self.random.choice(self.lines))
            self._pass()
        # Now no line leaves by itself, so the broker has to make room for each that asks.
        for number in range(4):
            self._ask(steps + number)
        for _ in range(PATIENCE_MS // _STEP_MS):
            self._pass()
        require(not self._asked, "whoever behaves is served")
        for line in self._all_lines:
            self._vanish(line)
        self.server.settle()
        self._check()
        requests, answers = self.server.open.requests, self.server.open.answers
        require(requests.used_bytes == answers.used_bytes == 0, "with the connections all memory is given back")
        require(requests.is_empty and answers.is_empty, "with the connections all accounts end")
        self.counts.closed = self.server.virtual.broker.metrics.connections_closed_slow
        return self.counts

    def _pass(self) -> None:
        for line in list(self.lines):
            if line.step is not None and line.is_open:
                line.step(line)
            self._send(line)
        self._check()
        self.server.virtual.time.advance(_STEP_MS)
        self._check()
        self._collect()
        self.lines = [line for line in self.lines if line.is_open]
        self.counts.short_looks += self.server.open.requests.used_bytes > LIMIT * 3 // 4
        self.counts.unread_looks += self.server.open.answers.used_bytes > UNREAD_LIMIT

    def _connect(self, *, is_read: bool = True, step: Callable[[Line], None] | None = None) -> Line:
        transport = self.server.connect(is_read=is_read)
        require(transport.connection is not None, "a connection is made")
        line = Line(transport, transport.connection, step=step)  # type: ignore[arg-type]
        self.lines.append(line)
        self._all_lines.append(line)
        return line

    def _send(self, line: Line, most: int = 16 * _PIECE) -> None:
        """Send as much as the broker reads and the network carries at once."""
        while line.outbox and most > 0 and line.is_open and line.transport.is_reading:
            piece = bytes(line.outbox[:_PIECE])
            del line.outbox[:_PIECE]
            most -= len(piece)
            self.server.send(line.transport, piece)
            self._check_bounds()

    def _vanish(self, line: Line) -> None:
        if line.is_open:
            line.transport.abort()
        elif line.transport.unsent:
            line.transport.read()  # it was closing, and the system lets go of the rest

    # --- clients that do not do their part ----------------------------------------------------------------------------

    def _large(self) -> bytes:
        size = self.random.choice([100 * KIB, MIB - 1, MIB, ALLOWANCE])
        return size.to_bytes(4, "big") + bytes(size)

    def _stalls(self) -> None:
        frame = self._large()
        line = self._connect()
        line.outbox += frame[: self.random.choice([5, len(frame) // 3, len(frame) - 1])]

    def _dribbles(self) -> None:
        frame = self._large()
        done = self.random.choice([4, len(frame) // 2, len(frame) - 5_000])
        rest = bytearray(frame[done:-1])

        def step(line: Line) -> None:
            if not line.outbox:
                line.outbox += rest[:7]
                del rest[:7]

        self._connect(step=step).outbox += frame[:done]

    def _pipelines(self) -> None:
        line = self._connect(is_read=self.random.random() < 0.5)
        choices = [_SMALL, _MEDIUM, fetch(1, "t"), produce(1, "t")]
        line.outbox += b"".join(self.random.choice(choices) for _ in range(self.random.choice([5, 60])))

    def _pipelines_behind_a_wait(self) -> None:
        line = self._connect()
        line.outbox += fetch(0, "t", offset=4, max_wait_ms=60_000)
        line.outbox += _MEDIUM * 20

    def _reads_slowly(self) -> None:
        size = self.random.choice([0, 1, 2_000, 50_000])
        line = self._connect(is_read=False, step=lambda line: line.transport.read_some(size))
        line.outbox += b"".join(fetch(number, "t") for number in range(5))

    def _half_closes(self) -> None:
        line = self._connect()
        line.outbox += produce(1, "t") + self._large()[: self.random.choice([2, 90_000])]
        self._send(line)
        if line.is_open and line.connection.eof_received() is False:
            line.transport.close()

    # --- clients that behave ------------------------------------------------------------------------------------------

    def _ask(self, number: int, since_ms: int | None = None) -> None:
        line = self._connect()
        line.outbox += self.random.choice([_SMALL, _MEDIUM, _LARGE, _LARGEST])
        now_ms = self.server.virtual.time.monotonic_ms()
        self._asked[number] = (line, now_ms if since_ms is None else since_ms, now_ms)

    def _collect(self) -> None:
        now_ms = self.server.virtual.time.monotonic_ms()
        for number, (line, since_ms, tried_ms) in list(self._asked.items()):
            waited_ms = now_ms - since_ms
            require(waited_ms <= PATIENCE_MS, "whoever behaves is served in time", number, waited_ms)
            if line.transport.sent:
                self.counts.served += 1
                self.counts.slowest_ms = max(self.counts.slowest_ms, waited_ms)
                del self._asked[number]
                line.transport.close()
            elif not line.is_open and now_ms - tried_ms >= _RETRY_MS:
                self._ask(number, since_ms)

    # --- the independent count ----------------------------------------------------------------------------------------

    def _check(self) -> None:
        requests = sum(held_by_requests(line.connection) for line in self._all_lines)
        answers = sum(held_by_answers(line.connection) + len(line.transport.unsent) for line in self._all_lines)
        memory = self.server.open
        require(
            memory.requests.used_bytes == requests, "of requests all is counted", memory.requests.used_bytes, requests
        )
        # What a client reads in small pieces is noted at the next look.
        require(memory.answers.used_bytes >= answers, "of answers all is counted", memory.answers.used_bytes, answers)
        self._check_bounds()

    def _check_bounds(self) -> None:
        memory = self.server.open
        requests, answers = memory.requests.used_bytes, memory.answers.used_bytes
        require(requests <= LIMIT + ALLOWANCE, "requests stay within the bound and an allowance", requests)
        require(answers <= UNREAD_LIMIT + ALLOWANCE, "answers stay within the bound and an allowance", answers)


def held_by_requests(connection: Connection) -> int:
    buffers: dict[int, Any] = {id(frame.obj): frame.obj for frame in connection._frames}
    buffers[id(connection._reader.partial)] = connection._reader.partial
    return sum(map(len, buffers.values()))


def held_by_answers(connection: Connection) -> int:
    waiting = sum(len(part) for exchange in connection._exchanges for part in exchange.parts or ())
    return waiting + sum(map(len, connection._output))
