"""A node over tables in virtual time: processes one after another, each with a clock of its own, that can stand still.

Owns: the steps of `broker.daemon.succession` without an event loop and without sockets: a term stands by, leads, and
hands over. Does not own: when a process ends, stops, or stands still, and what its clients ask
(`tests.simulation.pair_world`), the database (`tests.fakes.tables`).
What is on its way to a process that stands still arrives when it goes on; what its database has to do is done.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from logging import INFO
from random import Random
from typing import Any

import structlog

from oncelog.broker.assembly.broker import StartError, assemble
from oncelog.broker.assembly.postgres import Succession
from oncelog.broker.assembly.standby import assemble_standby
from oncelog.broker.config.settings import load_config
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.shared.lease import LeaseTerms, take_lease
from oncelog.broker.storage.shared.statements import Fenced, Statements
from oncelog.broker.storage.shared.store import SharedLogStore, SharedSizes, open_store
from oncelog.broker.storage.shared.tables import NOBODY, Lease, NodeAddress, SeenNodes, TakenLease, WantLeader
from oncelog.broker.succession.coordinators import maybe_create_coordinators
from oncelog.broker.succession.follower import FellBehind, MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.roster import Roster
from oncelog.broker.succession.standing import Standing
from oncelog.broker.system.ending import EndingScheduler
from oncelog.broker.turns.completion import Completion, all_of
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Clock, MonotonicMs
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import KafkaError, ProtocolError
from oncelog.protocol.message import Message
from tests.fakes.broker import AnsweringBroker, Reply, SeededEntropy
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime

PORT = 9092
_FOLLOW_MS = 200
_AGAIN_MS = 200
_FLUSH_MS = 30_000
_NOTICE_MS = 1_000
_STEP_MS = 100
_KEEPALIVE_MS = 11_000
"""After so long a server takes the connections of a machine that is gone for cut."""
_COMPACTION_BYTES = 1_000_000


class Serving(AnsweringBroker):
    """What answers the clients of a node for a while."""

    def __init__(self, node_id: int, time: VirtualTime, broker: Broker, epoch: int) -> None:
        self.node_id = node_id
        self.time = time
        self.broker = broker
        self.dispatcher = Dispatcher(broker)
        self.advertised = address_of(node_id)
        self.epoch = epoch
        """In which it leads; −1: it stands by."""
        self.is_closing = False
        """It takes no requests any more."""
        self.is_over = False
        """Its connections are closed."""

    def change_broker(self, broker: Broker, epoch: int) -> None:
        self.broker, self.epoch = broker, epoch
        self.dispatcher.change_broker(broker)


class Arrival:
    """A request at a node, and the answer, once it is there."""

    def __init__(self) -> None:
        self.serving: Serving | None = None
        self.reply: Reply | None = None
        self.is_refused = False

    @property
    def is_there(self) -> bool:
        return self.reply is not None and self.reply.is_there

    @property
    def is_lost(self) -> bool:
        """The connection is closed."""
        return self.is_refused or (self.serving is not None and self.serving.is_over)


@dataclass
class Surroundings:
    """What the nodes share."""

    database: Database
    server: VirtualTime
    """The time of the database."""
    server_clock: Clock
    """What it takes for the time."""
    settings: tuple[str, ...]
    lease_ms: int
    cut_share: float
    entropy: Random
    sizes: Callable[[], SharedSizes]


class Node:
    def __init__(self, around: Surroundings, node_id: int) -> None:
        self._around = around
        self.node_id = node_id
        self.rate = 1.0
        """Of its monotonic clock, against that of the database."""
        self._owed_ms = 0.0
        self._slept_ms = 0
        self.is_standing_still = False
        self.is_away = False
        """The database refuses its connections."""
        self.process: Process | None = None

    def start(self, wall_ms: int) -> None:
        self.is_standing_still, self._slept_ms = False, 0
        self.process = Process(self._around, self, wall_ms)

    def pass_time(self, delay_ms: int) -> None:
        process = self.process
        if process is None:
            return
        self._owed_ms += delay_ms * self.rate
        whole_ms = int(self._owed_ms)
        self._owed_ms -= whole_ms
        if self.is_standing_still:
            self._slept_ms += whole_ms
        else:
            process.time.advance(whole_ms)

    def stay_away(self, is_away: bool) -> None:
        self.is_away = is_away
        if self.tables is not None:
            self.tables.is_away = is_away
            if is_away:
                self.tables.cut_all()

    def stand_still(self) -> None:
        self.is_standing_still = True

    def go_on(self) -> None:
        """Its clock has gone on."""
        self.is_standing_still = False
        slept_ms, self._slept_ms = self._slept_ms, 0
        if self.process is not None:
            self.process.time.leap(slept_ms)

    def kill(self) -> None:
        if self.process is not None:
            self.process.end()
            if self.tables is not None:
                self.tables.cut_all()
        self.process = None

    def lose_the_machine(self) -> None:
        """The database notices after a while."""
        tables = self.tables
        if self.process is not None:
            self.process.end()
            if tables is not None:
                tables.be_silent()
                self._around.server.call_later(_KEEPALIVE_MS, tables.cut_all)
        self.process = None

    @property
    def tables(self) -> FakeTables | None:
        return None if self.process is None or self.process.term is None else self.process.term.tables

    @property
    def serving(self) -> Serving | None:
        return None if self.process is None else self.process.serving

    def take(
        self, frame: memoryview, request: Message, version: int, is_wanted: Callable[[], bool] = lambda: True
    ) -> Arrival:
        """A frame has arrived at the machine. Unless it `is_wanted` when the process takes it, its client has closed
        the connection before."""
        arrival, process = Arrival(), self.process
        if process is None:
            arrival.is_refused = True
            return arrival

        def take() -> None:
            serving = process.serving
            if serving is None or serving.is_closing or not is_wanted():
                arrival.is_refused = True
            else:
                arrival.serving, arrival.reply = serving, serving.take(frame, request, version)

        process.time.call_soon(take)
        return arrival


class Process:
    """From a start to its end."""

    def __init__(self, around: Surroundings, node: Node, wall_ms: int) -> None:
        self.around = around
        self.node = node
        self.time = VirtualTime(wall_ms)
        self.serving: Serving | None = None
        self.term: Term | None = None
        self.ended_by: Exception | None = None
        self.has_ended = False
        self.stopping: Completion[None] = Completion()
        self.warnings: list[dict[str, Any]] = []
        at_info = structlog.make_filtering_bound_logger(INFO)
        self.log = structlog.wrap_logger(structlog.PrintLogger(), processors=[self._log], wrapper_class=at_info).bind()
        self.config, _ = load_config(overrides=(*around.settings, f"node.id={node.node_id}"))
        self.node_id = node.node_id
        self.standing = Standing(self.time, node.node_id)
        self.entropy = SeededEntropy(around.entropy.getrandbits(32))
        Slices(self.time).run_own(self._run()).then(self._on_end)

    def _log(self, _: object, level: str, event: Any) -> Any:
        if level not in ("debug", "info"):
            self.warnings.append(dict(event))
        raise structlog.DropEvent

    def stop(self) -> None:
        if not self.stopping.done:
            self.stopping.complete(None)

    def _run(self) -> Sliced[None]:
        yield 1  # what the first slice raises is raised where it was asked for
        while not self.stopping.done:
            self.term = term = Term(self)
            try:
                yield from term.run()
            finally:
                self.leave()
            yield from term.end()

    def _on_end(self, run: Completion[None]) -> None:
        self.ended_by = run.error
        if self.term is not None:
            self.term.tables.cut_all()
        self.end()

    def end(self) -> None:
        self.has_ended = True
        if self.term is not None:
            self.term.scheduler.end()
        self.leave()

    def serve(self, broker: Broker, epoch: int = -1) -> Serving:
        """Whoever is connected stays so."""
        if self.serving is None:
            self.serving = Serving(self.node_id, self.time, broker, epoch)
        else:
            self.serving.change_broker(broker, epoch)
        return self.serving

    def leave(self) -> None:
        """Every connection of clients is closed."""
        if self.serving is not None:
            self.serving.is_over = True
            self.serving = None


class Term:
    """From one connection to the tables to the end of a leadership."""

    def __init__(self, process: Process) -> None:
        self._process = process
        around = process.around
        self.scheduler = EndingScheduler(process.time)
        self.slices = Slices(self.scheduler)
        self.tables = FakeTables(
            around.database,
            around.server,
            around.server_clock,
            Random(around.entropy.getrandbits(32)),
            cut_share=around.cut_share,
            to_broker=process.time.call_soon,
        )
        self.tables.is_away = process.node.is_away
        self.statements = Statements(self.tables, self.scheduler, process.time)
        owner = f"{process.node_id} ({process.entropy.uuid()})"
        self.terms = LeaseTerms(owner, around.lease_ms, node_id=process.node_id)
        self.roster = Roster(self.statements, process.time, self.scheduler, process.node_id, owner, self.terms.lease_ms)
        self.system = System(process.time, process.entropy, self.scheduler, None, None, self._on_failure)
        self.problems: list[str] = []
        self.follower: MetadataFollower | None = None
        self.leader_epoch = -1
        self.leader_node_id = NOBODY
        self.leader_seen = LeaderSeen(process.time, self.scheduler)
        self.store: SharedLogStore | None = None
        self.over: Completion[None] = Completion()
        self.is_lost = False
        self.failures: list[OSError] = []
        self.wanted = NOBODY
        self._standby: Generator[Any, None, None] | None = None

    def run(self) -> Sliced[None]:
        yield from self.roster.begin(lambda _: None)
        taken = yield from self._stand_by()
        if taken is not None:
            yield from self._lead(taken)

    def end(self) -> Sliced[None]:
        leaving: Completion[None] = Completion()
        self.roster.end().then(lambda _: leaving.complete(None))
        yield leaving
        self.scheduler.end()
        self.tables.cut_all()

    def _pause(self, delay_ms: int) -> Completion[None]:
        pause: Completion[None] = Completion()
        self.scheduler.call_later(delay_ms, lambda: pause.complete(None))
        return pause

    # -- standing by

    def _stand_by(self) -> Sliced[TakenLease | None]:
        clock, terms = self.system.clock, self.terms
        taking = self.slices.run_own(take_lease(self.statements, clock, self.scheduler, terms, self._on_seen_lease))
        yield _first_of(taking, self._process.stopping)
        self._end_standby()
        return taking.result() if taking.done else None

    def _on_seen_lease(self, seen: Lease, asked_at_ms: MonotonicMs) -> None:
        if seen.epoch != self.leader_epoch and seen.node_id not in (NOBODY, self.terms.node_id):
            self.leader_epoch, self.leader_node_id = seen.epoch, seen.node_id
            self._end_standby()
            self._standby = self._serve_as_standby()
            self.slices.run_own(self._standby)
        else:
            self.leader_seen.on_look(seen, asked_at_ms)

    def _end_standby(self) -> None:
        if self._standby is not None:
            self._standby.close()
            self._standby = None

    def _serve_as_standby(self) -> Generator[Any, None, None]:
        yield 1
        while True:
            try:
                follower = MetadataFollower(self.statements)
                yield from follower.load()
                broker = yield from assemble_standby(
                    self._process.config,
                    self.system,
                    self._process.log,
                    follower,
                    self.roster.nodes,
                    self.leader_node_id,
                    self.leader_seen,
                )
                self._name_leader(self.leader_node_id)
                self._process.serve(broker)
                self.follower = follower
                self._listen()
                while True:
                    self.roster.follow(follower.number)
                    yield self._pause(_FOLLOW_MS)
                    yield from follower.follow()
            except (FellBehind, KafkaError, ProtocolError, ValueError, OSError):
                yield self._pause(_AGAIN_MS)
            finally:
                self.follower = None
                self.roster.follow(NOBODY)

    def _name_leader(self, node_id: int) -> None:
        """To those who have asked the broker before."""
        if self._process.serving is not None:
            self._process.serving.broker.leadership.leader_node_id = node_id

    def _listen(self) -> None:
        self.roster.listen([NodeAddress("PLAINTEXT", *address_of(self._process.node_id))])

    # -- leading

    def _lead(self, taken: TakenLease) -> Sliced[None]:
        process, clock = self._process, self.system.clock
        compaction = CompactionSettings(self.scheduler, _COMPACTION_BYTES, 0, self.problems.append)
        sizes = process.around.sizes()
        self.store = yield from open_store(
            self.tables, clock, self.scheduler, self._on_failure, compaction, sizes, self.terms, taken=taken
        )
        succession = Succession(self.tables, self.terms, taken, self.roster.nodes, process.standing)
        assembled = assemble(process.config, self.system, process.log, None, self.store, succession)
        yield assembled
        self._name_leader(process.node_id)
        serving = process.serve(assembled.result(), taken.epoch)
        self.leader_seen.release()
        self._listen()
        self.roster.watch(lambda seen: self._on_seen_nodes(serving.broker, seen))
        self._step(serving)
        yield _first_of(process.stopping, self.over)
        if not self.is_lost:
            yield from self._hand_over(serving)

    def _step(self, serving: Serving) -> None:
        if not serving.is_over:
            self.scheduler.call_later(_STEP_MS, lambda: self._step(serving))
            serving.broker.logs.step()
            serving.broker.transactions.step()

    def _on_seen_nodes(self, broker: Broker, seen: SeenNodes) -> None:
        if seen.wanted not in (NOBODY, self.terms.node_id) and seen.wanted in self.roster.standing_by:
            self.wanted = seen.wanted
            self._is_over()
        assert self.store is not None
        self.store.await_successor(is_there=bool(self.roster.standing_by))
        if self.roster.nodes.others:
            maybe_create_coordinators(broker.topics)

    def _on_failure(self, error: OSError) -> None:
        if self.is_lost:
            return
        self.failures.append(error)
        if isinstance(error, Fenced):
            self.is_lost = True
            self._is_over()

    def _is_over(self) -> None:
        if not self.over.done:
            self.over.complete(None)

    def _hand_over(self, serving: Serving) -> Sliced[None]:
        successor = self.roster.successor if self.wanted == NOBODY else self.wanted
        assert self.store is not None
        self.store.lease.successor = successor
        if successor not in (NOBODY, self.wanted):
            yield _first_of(self.statements.once(WantLeader(successor)), self._pause(_NOTICE_MS))
        serving.is_closing = True
        logs = serving.broker.logs
        if not serving.broker.rounds.is_over:
            ends = None
            while ends != (ends := [log.log_end_offset for log in logs.logs]):
                durable = all_of([log.when_durable(log.log_end_offset) for log in logs.logs if not log.offline_error])
                yield _first_of(durable, self._pause(_FLUSH_MS))
            while logs.store.is_busy and successor == NOBODY:
                yield _first_of(logs.store.when_idle())
        logs.close()


def address_of(node_id: int) -> tuple[str, int]:
    return f"node-{node_id}.example", PORT


def _first_of(*completions: Completion[Any]) -> Completion[None]:
    """Completes once one of them has ended, well or not."""
    first: Completion[None] = Completion()

    def on_end(_: object) -> None:
        if not first.done:
            first.complete(None)

    for each in completions:
        each.then(on_end)
    return first


EXPECTED_ENDS = (OSError, StartError)
"""What ends a process that its supervisor starts again."""
