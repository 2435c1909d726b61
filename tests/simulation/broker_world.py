"""The whole broker in simulation: clients of every kind, a network and a disk with faults, kills and power cuts.

Owns: virtual time and whatever crosses it: when a request arrives, whether its answer does, when the broker stops.
Requests of one client keep their order, as on one connection; a client that waited too long opens another.

The auditor is `audit`: what was told holds; a transaction is visible whole and once, or not at all; nobody fenced is
told that he committed; a reader's view never changes; outputs and offsets agree; once trouble stops, all is stable.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from protocol.generated.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.fakes.broker import Reply, VirtualBroker
from tests.fakes.disk import PowerCut
from tests.simulation.broker_clients import (
    INPUT,
    LEDGER_TOPIC,
    OUTPUT,
    PARTITIONS,
    Aborts,
    Fenced,
    Ledger,
    Life,
    Session,
    feeds,
    processes,
    reads,
    transfers,
)
from tests.simulation.log_auditor import require

_SETTINGS = ("offsets.topic.num.partitions=2", "transaction.state.log.num.partitions=2")
_ANSWER_TIMEOUT_MS = 400


@dataclass(eq=False)
class Client:
    life: Life
    ticket: int = 0
    """The question that it waits for; an answer to an earlier one comes too late."""


@dataclass
class Tally:
    transfers: int = 0
    committed: int = 0
    stops: int = 0
    power_cuts: int = 0
    processed: int = 0
    lost_answers: int = 0


class BrokerWorld:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.transaction_version = self.random.choice([1, 2])
        self.tally = Tally()
        self.ledger = Ledger()
        self.views: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        setting = f"oncelog.feature.transaction.version={self.transaction_version}"
        self.broker = VirtualBroker(*_SETTINGS, setting, seed=seed)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._now_ms = 0
        self._pending: list[tuple[Client, int, Reply]] = []
        self._is_calm = False
        for topic, partitions in ((LEDGER_TOPIC, PARTITIONS), (INPUT, 1), (OUTPUT, 1)):
            wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
            self.broker.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=1_000), 5)

    # --- time ---------------------------------------------------------------------------------------------------------

    def _later(self, delay_ms: int, function: Callable[[], None]) -> None:
        heappush(self._events, (self._now_ms + delay_ms, next(self._order), function))

    def _run_until(self, end_ms: int) -> None:
        while self._events and self._events[0][0] <= end_ms:
            at_ms, _, function = heappop(self._events)
            self._pass(at_ms - self._now_ms)
            self._now_ms = at_ms
            self._guarded(function)
            self._collect()
        self._pass(end_ms - self._now_ms)
        self._now_ms = end_ms

    def _pass(self, delay_ms: int) -> None:
        """Small steps: an answer is seen when it is there, not when the next event is."""
        while delay_ms > 0:
            step = min(delay_ms, 25)
            delay_ms -= step
            self._guarded(lambda step_ms=step: self._turn(step_ms))  # type: ignore[misc]
            self._collect()

    def _turn(self, step_ms: int) -> None:
        self.broker.time.advance(step_ms)
        self.broker.broker.transactions.step(self.broker.time.now_ms())

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except PowerCut:
            self.tally.power_cuts += 1
            self._restart(lambda: self.broker.crashed(self.random.randrange(2**30)))

    # --- the network --------------------------------------------------------------------------------------------------

    def join(self, life: Life) -> None:
        client = Client(life)
        self._later(self.random.randint(0, 50), lambda: self._resume(client, None))

    def _resume(self, client: Client, answer: Any) -> None:
        client.ticket += 1
        ticket = client.ticket
        try:
            wish = client.life.send(answer)
        except (StopIteration, Fenced, Aborts):
            return  # its work is done, or it gives up
        if isinstance(wish, int):
            self._later(wish, lambda: self._resume(client, None))
            return
        request, version = wish
        self._later(self._latency_ms(), lambda: self._arrive(client, ticket, request, version))
        self._later(_ANSWER_TIMEOUT_MS, lambda: self._give_up(client, ticket))

    def _arrive(self, client: Client, ticket: int, request: Any, version: int) -> None:
        # A connection that was given up brings nothing any more, nor does one that breaks on the way.
        if client.ticket == ticket and not self._is_lost():
            self._pending.append((client, ticket, self.broker.start(request, version)))

    def _collect(self) -> None:
        waiting = self._pending
        self._pending = []
        for client, ticket, reply in waiting:
            if not reply.is_there:
                self._pending.append((client, ticket, reply))
            elif self._is_lost():
                self.tally.lost_answers += 1
            else:
                self._later(self._latency_ms(), lambda c=client, t=ticket, r=reply: self._deliver(c, t, r))  # type: ignore[misc]

    def _deliver(self, client: Client, ticket: int, reply: Reply) -> None:
        if client.ticket == ticket:
            self._resume(client, reply.message)

    def _give_up(self, client: Client, ticket: int) -> None:
        if client.ticket == ticket:
            self._resume(client, None)

    def _latency_ms(self) -> int:
        return self.random.choice([0, 0, 1, 1, 5, 40])

    def _is_lost(self) -> bool:
        return not self._is_calm and self.random.random() < 0.02

    # --- stops --------------------------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        if self._is_calm:
            return
        self._later(self.random.choice([100, 400, 1_500]), self._trouble)
        kind = self.random.choice(["kill", "crash", "power cut", "clean"])
        if kind == "power cut":
            self.broker.disk.operations_left = self.random.randint(0, 30)
            return
        self.tally.stops += 1
        if kind == "crash":
            self._restart(lambda: self.broker.crashed(self.random.randrange(2**30)))
        else:
            if kind == "clean":
                self.broker.broker.logs.close()
            self._restart(self.broker.killed)

    def _restart(self, start: Callable[[], VirtualBroker]) -> None:
        self._pending = []
        self.broker.disk.operations_left = None
        self.broker = start()

    # --- a life -------------------------------------------------------------------------------------------------------

    def run(self, duration_ms: int = 12_000) -> Tally:
        for topic, partition in [(LEDGER_TOPIC, 0), (LEDGER_TOPIC, 1), (OUTPUT, 0)]:
            self.join(reads(self.views.setdefault((topic, partition), []), topic, partition))
        self.join(feeds(self.ledger, self.random, 30))
        self._incarnate()
        self._trouble()
        self._run_until(duration_ms)
        self._is_calm = True
        self.broker.disk.operations_left = None
        self._run_until(duration_ms + 30_000)
        self.audit()
        return self.tally

    def _incarnate(self) -> None:
        """New producers take the ids of older ones, which may still be at work."""
        for number in range(3):
            for incarnation in range(3):
                name = f"t{number}.{incarnation}"
                life = transfers(self._session(f"transfer-{number}"), name, 6)
                self._later(incarnation * self.random.randint(500, 3_000), lambda new=life: self.join(new))  # type: ignore[misc]
        for incarnation in range(3):
            life = processes(self._session("processor"), f"p.{incarnation}", 25)
            self._later(incarnation * self.random.randint(1_000, 4_000), lambda new=life: self.join(new))  # type: ignore[misc]

    def _session(self, transactional_id: str) -> Session:
        return Session(transactional_id, self.transaction_version, self.ledger, Random(self.random.random()))

    # --- the auditor --------------------------------------------------------------------------------------------------

    def audit(self) -> None:
        ledger = self.ledger
        for name, index in ((LEDGER_TOPIC, 0), (LEDGER_TOPIC, 1), (OUTPUT, 0), (INPUT, 0)):
            log = self.broker.broker.topics.partition(name, index)
            require(log.last_stable_offset == log.log_end_offset, "once trouble stops, all is stable", name, index)
        legs = [Counter(value.decode() for _, value in self.views[LEDGER_TOPIC, index]) for index in range(PARTITIONS)]
        for transfer in ledger.begun:
            seen = [leg[transfer] for leg in legs]
            require(seen in ([0] * PARTITIONS, [1] * PARTITIONS), "all or nothing, and once", transfer, seen)
            if transfer in ledger.committed:
                require(seen == [1] * PARTITIONS, "what was told committed is visible", transfer)
            elif transfer in ledger.aborted:
                require(seen == [0] * PARTITIONS, "what was told aborted is not", transfer)
        require(not ledger.late_commits, "nobody fenced is told that he committed", ledger.late_commits)
        for view in self.views.values():
            offsets = [offset for offset, _ in view]
            require(offsets == sorted(set(offsets)), "a reader's view only grows")
        outputs = [value for _, value in self.views[OUTPUT, 0]]
        wanted = [b"input-%d" % number for number in range(len(outputs))]
        require(outputs == wanted, "each input is processed once, in order", outputs[-3:], len(outputs))
        self.tally.transfers += len(ledger.begun)
        self.tally.committed += len(ledger.committed)
        self.tally.processed += len(outputs)
