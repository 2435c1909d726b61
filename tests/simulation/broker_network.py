"""The network between simulated clients and the broker: slow, lossy, cut in mid-frame, and sometimes double.

Owns: when a request arrives, whether its answer does, and what a broken connection leaves behind. Requests of one
client keep their order, as on one connection; a client that waited too long opens another.
Invariant: what is left on a connection that was given up arrives later only where `may_be_late`. Under
transaction.version 1 the protocol itself cannot distinguish such a request from one of the next transaction
(KAFKA-17754); that is a scenario of its own, tests/unit/transaction/test_scenarios.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from struct import pack
from typing import Any

from oncelog.protocol.frames import FrameReader
from tests.clients.simulated import Aborts, Fenced, Life
from tests.fakes.broker import Reply, VirtualBroker

_ANSWER_TIMEOUT_MS = 400
_MAX_FRAME_BYTES = 1_000_000


@dataclass(eq=False)
class Client:
    life: Life
    name: str
    ticket: int = 0
    """The question that it waits for; an answer to an earlier one comes too late."""
    is_done: bool = False


@dataclass
class Losses:
    lost_requests: int = 0
    lost_answers: int = 0
    cut_frames: int = 0
    late_requests: int = 0
    double_requests: int = 0


class Network:
    def __init__(
        self,
        random: Random,
        later: Callable[[int, Callable[[], None]], None],
        broker: Callable[[], VirtualBroker],
        *,
        may_be_late: bool,
    ) -> None:
        self._random = random
        self._later = later
        self._broker = broker
        self._may_be_late = may_be_late
        self._pending: list[tuple[Client, int, Reply]] = []
        self._cuts = 0
        self.is_calm = False
        self.may_be_refused = False
        """The disk has refused something: a request may end with its connection."""
        self.losses = Losses()

    def join(self, client: Client) -> None:
        self._later(self._random.randint(0, 50), lambda: self._resume(client, None))

    def _resume(self, client: Client, answer: Any) -> None:
        client.ticket += 1
        ticket = client.ticket
        try:
            wish = client.life.send(answer)
        except (StopIteration, Fenced, Aborts):
            client.is_done = True  # its work is done, or it gives up
            return
        if isinstance(wish, int):
            self._later(wish, lambda: self._resume(client, None))
            return
        request, version = wish
        self._send(client, ticket, request, version)
        self._later(_ANSWER_TIMEOUT_MS, lambda: self._give_up(client, ticket))

    def _send(self, client: Client, ticket: int, request: Any, version: int) -> None:
        frame = VirtualBroker.frame(request, version)
        latency_ms = self._latency_ms()
        if self._strikes(0.01) and self._may_be_late:
            latency_ms += self._random.choice([300, 1_000, 4_000])
        self._later(latency_ms, lambda: self._arrive(client, ticket, frame, request, version))
        if self._strikes(0.02):
            # A proxy has opened a second connection, and sends the request again.
            self.losses.double_requests += 1
            self._later(latency_ms, lambda: self._arrive(client, ticket, frame, request, version, is_double=True))

    def _arrive(
        self, client: Client, ticket: int, frame: memoryview, request: Any, version: int, *, is_double: bool = False
    ) -> None:
        if client.ticket != ticket:
            if not self._may_be_late:
                return
            self.losses.late_requests += 1
        if self._strikes(0.02):
            self.losses.lost_requests += 1
            return
        whole = pack(">i", len(frame)) + bytes(frame)
        if self._strikes(0.02):
            self.losses.cut_frames += 1
            whole = whole[: self._random.randrange(len(whole))]
        # In two pieces, as the network likes.
        place = self._random.randrange(len(whole) + 1)
        reader = FrameReader(_MAX_FRAME_BYTES)
        for part in (whole[:place], whole[place:]):
            for each in reader.feed(part):
                self._take(client, ticket, each, request, version, is_double)

    def _take(
        self, client: Client, ticket: int, frame: memoryview, request: Any, version: int, is_double: bool
    ) -> None:
        reply = self._broker().take(frame, request, version)
        if not is_double:
            self._pending.append((client, ticket, reply))

    def collect(self) -> None:
        """Take the answers that are there."""
        waiting = self._pending
        self._pending = []
        for client, ticket, reply in waiting:
            if not reply.is_there:
                self._pending.append((client, ticket, reply))
            elif self._strikes(0.02):
                self.losses.lost_answers += 1
            else:
                sent = client, ticket, reply, self._cuts
                self._later(self._latency_ms(), lambda sent=sent: self._deliver(*sent))  # type: ignore[misc]

    def _deliver(self, client: Client, ticket: int, reply: Reply, cuts: int) -> None:
        if client.ticket == ticket and cuts == self._cuts:
            is_refused = self.may_be_refused and reply.is_closed
            self._resume(client, None if is_refused else reply.message)

    def _give_up(self, client: Client, ticket: int) -> None:
        if client.ticket == ticket:
            self._resume(client, None)

    def cut_all(self) -> None:
        """Drop every response that is on its way to a client."""
        self._cuts += 1

    def on_restart(self) -> None:
        """The answers of the broker that stopped never come."""
        self._pending = []

    def _latency_ms(self) -> int:
        return self._random.choice([0, 0, 1, 1, 5, 40])

    def _strikes(self, probability: float) -> bool:
        return not self.is_calm and self._random.random() < probability
