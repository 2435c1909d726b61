"""A node over tables in virtual time: processes one after another, each with a clock of its own, that can stand still.

Owns: what `broker.succession` is given of a process, without an event loop and without sockets. Does not own: when a
process ends, stops, or stands still, and what its clients ask (`tests.simulation.pair_world`), the database
(`tests.fakes.tables`). What is on its way to a process that stands still arrives when it runs again; what its database
has to do is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import structlog

from oncelog.broker.assembly.broker import StartError, assemble
from oncelog.broker.assembly.postgres import terms_of
from oncelog.broker.assembly.standby import assemble_standby
from oncelog.broker.cluster.nodes import Nodes
from oncelog.broker.config.settings import load_config
from oncelog.broker.observability.troubles import TroubleLog
from oncelog.broker.requests.context import Peer
from oncelog.broker.requests.dispatch import Dispatcher
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.compaction.cleaner import CompactionSettings
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.store import SharedSizes, open_store
from oncelog.broker.storage.shared.tables import NodeAddress
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.node import Node
from oncelog.broker.succession.process import Succession
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import Clock
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.broker.turns.waiting import first_of, pause
from oncelog.protocol.message import Message
from oncelog.protocol.topics import INTERNAL_TOPICS
from tests.fakes.broker import AnsweringBroker, Reply, SeededEntropy, quiet_log
from tests.fakes.database import Database
from tests.fakes.tables import FakeTables
from tests.fakes.virtual_time import VirtualTime

PORT = 9092
SOFTWARE = "kgo"
"""The client software that requests name: to such clients, nodes list only the nodes that are there."""
_OPENING_MS = (0, 0, 1, 30)
"""How long sockets may take to open."""
_FLUSH_MS = 30_000
_STEP_MS = 100
_KEEPALIVE_MS = 11_000
"""How long a server takes to close the connections of a machine that is gone."""
_COMPACTION_BYTES = 1_000_000
_REPLAYED_BYTES = 500


class Serving(AnsweringBroker):
    """The broker that answers a node's clients for a while."""

    def __init__(self, node_id: int, time: VirtualTime, broker: Broker, epoch: int) -> None:
        self.node_id = node_id
        self.time = time
        self.broker = broker
        self.dispatcher = Dispatcher(broker)
        self.advertised = address_of(node_id)
        self.epoch = epoch
        """The epoch in which it leads; −1 on a standby."""
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
        self.server_ms = 0
        """When the process took it, by the clock of the database."""

    @property
    def is_there(self) -> bool:
        return self.reply is not None and self.reply.is_there

    @property
    def is_lost(self) -> bool:
        """The connection is closed."""
        return self.is_refused or (self.serving is not None and self.serving.is_over)


@dataclass
class Surroundings:
    """The parts that all nodes share."""

    database: Database
    server: VirtualTime
    """The time of the database."""
    server_clock: Clock
    """The database's own clock, which may be wrong."""
    settings: tuple[str, ...]
    lease_ms: int
    cut_share: float
    entropy: Random
    sizes: Callable[[], SharedSizes]


class VirtualNode:
    def __init__(self, around: Surroundings, node_id: int) -> None:
        self._around = around
        self.node_id = node_id
        self.rate = 1.0
        """The rate of its monotonic clock, relative to the database's."""
        self._owed_ms = 0.0
        self._slept_ms = 0
        self.is_standing_still = False
        self.is_away = False
        """The database refuses its connections."""
        self.cancel_share = 0.0
        """The share of its statements that are cancelled."""
        self.release = around.database.version
        """The version of the tables that its release knows."""
        self.process: VirtualProcess | None = None

    def start(self, wall_ms: int) -> None:
        self.is_standing_still, self._slept_ms = False, 0
        self.process = VirtualProcess(self._around, self, wall_ms)

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

    def suffer_cancels(self, share: float) -> None:
        self.cancel_share = share
        if self.tables is not None:
            self.tables.cancel_share = share

    def stand_still(self) -> None:
        self.is_standing_still = True

    def go_on(self) -> None:
        """Let the clock run again."""
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
        return None if self.process is None else self.process.tables

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
                arrival.server_ms = self._around.server.monotonic_ms()
                peer = Peer("10.0.0.1", 40_000, "PLAINTEXT", serving.advertised)
                peer.software_name = SOFTWARE
                arrival.serving, arrival.reply = serving, serving.take(frame, request, version, peer=peer)

        process.time.call_soon(take)
        return arrival


class VirtualProcess:
    """A process of a node, from its start to its end."""

    def __init__(self, around: Surroundings, machine: VirtualNode, wall_ms: int) -> None:
        self._around = around
        self._machine = machine
        self.node_id = machine.node_id
        self.time = VirtualTime(wall_ms)
        self._random = Random(around.entropy.getrandbits(32))
        self._slices = Slices(self.time)
        self.tables: FakeTables | None = None
        self.serving: Serving | None = None
        self._epoch = -1
        """The epoch of its newest leadership."""
        self.failures: list[OSError] = []
        """Errors that ended its leadership though no node deposed it."""
        self.failed_starts: list[StartError] = []
        self.problems: list[str] = []
        self.warnings: list[dict[str, Any]] = []
        self.ended_by: Exception | None = None
        self.has_ended = False
        self._stopping: Completion[None] = Completion()
        self._log = quiet_log(self._on_line)
        settings = (*around.settings, f"node.id={self.node_id}", f"oncelog.postgres.lease.ms={around.lease_ms}")
        self._config, _ = load_config(overrides=settings)
        entropy = SeededEntropy(self._random.getrandbits(32))
        self._system = system = System(self.time, entropy, self.time, None, None, self._on_failure)
        self.node: Node[Broker] = Node(self, self._config, system, self._log, self._stopping)
        self._slices.run_own(self.node.run()).then(self._on_end)

    def _on_line(self, _: object, level: str, event: Any) -> Any:
        if level not in ("debug", "info"):
            self.warnings.append(dict(event))
        raise structlog.DropEvent

    def _on_failure(self, error: OSError) -> None:
        """Its supervisor starts it again."""
        self.failures.append(error)
        self.stop()

    def stop(self) -> None:
        if not self._stopping.done:
            self._stopping.complete(None)

    def _on_end(self, run: Completion[None]) -> None:
        self.ended_by = run.error
        if self.tables is not None:
            self.tables.cut_all()
        self.end()

    def end(self) -> None:
        self.has_ended = True
        self._leave()

    def _leave(self) -> None:
        """Every connection of clients is closed."""
        if self.serving is not None:
            self.serving.is_over = True
            self.serving = None

    # -- what the node is given

    def terms(self) -> LeaseTerms:
        return terms_of(self._config, self._system)

    def open_tables(self, system: System) -> Sliced[FakeTables]:
        around = self._around
        self.tables = tables = FakeTables(
            around.database,
            around.server,
            around.server_clock,
            Random(self._random.getrandbits(32)),
            cut_share=around.cut_share,
            to_broker=self.time.call_soon,
        )
        tables.is_away, tables.cancel_share = self._machine.is_away, self._machine.cancel_share
        tables.release = self._machine.release
        yield 1
        if not tables.is_away:
            around.database.version = max(around.database.version, tables.release)
        return tables

    def outage_listener(self) -> None:
        """Return no listener: no test reads it."""

    def close_tables(self, tables: FakeTables) -> Completion[None]:
        tables.close()
        return Completion.of(None)

    def assemble_standby(
        self,
        system: System,
        follower: MetadataFollower,
        nodes: Nodes,
        leader_node_id: int,
        leader_seen: LeaderSeen,
    ) -> Sliced[Broker]:
        return assemble_standby(self._config, system, self._log, follower, nodes, leader_node_id, leader_seen)

    def assemble_leader(self, system: System, succession: Succession) -> Sliced[Broker]:
        self._epoch = succession.held.taken.epoch
        # As on a busy machine, where to begin takes longer than a lease.
        yield pause(system.scheduler, self._random.choice((0, 0, 0, 300, 1_500, 1.5 * self._around.lease_ms)))
        try:
            store = yield from open_store(
                succession.tables,
                system.clock,
                system.scheduler,
                system.on_disk_failure,
                CompactionSettings(
                    system.scheduler,
                    _COMPACTION_BYTES,
                    0,
                    self.problems.append,
                    replayed_topics=INTERNAL_TOPICS,
                    replayed_bytes=_REPLAYED_BYTES,
                ),
                self._around.sizes(),
                succession.terms,
                TroubleLog(self._log, "tables"),
                held=succession.held,
            )
            assembling = assemble(self._config, system, self._log, None, store, succession)
            yield assembling
            return assembling.result()
        except OSError as error:
            problem = StartError(f"node {self.node_id} cannot start: {error}")
            self.failed_starts.append(problem)
            raise problem from error
        except StartError as error:
            self.failed_starts.append(error)
            raise

    def serve(self, broker: Broker) -> Completion[Sequence[NodeAddress]]:
        """Open the sockets, after a while; connections that are open stay open."""

        def opened(_: None) -> list[NodeAddress]:
            epoch = self._epoch if broker.leadership.is_ours else -1
            if self.serving is None:
                self.serving = Serving(self.node_id, self.time, broker, epoch)
            else:
                self.serving.change_broker(broker, epoch)
            self._step(self.serving, broker)
            return [NodeAddress("PLAINTEXT", *address_of(self.node_id))]

        return pause(self.time, self._random.choice(_OPENING_MS)).map(opened)

    def _step(self, serving: Serving, broker: Broker) -> None:
        if serving.broker is broker and not serving.is_closing and broker.leadership.is_ours:
            broker.scheduler.call_later(_STEP_MS, lambda: self._step(serving, broker))
            broker.logs.step()
            broker.transactions.step()

    def announce(self) -> None:
        """Do nothing: no test reads the announcement."""

    def stop_serving(self, *, is_handover: bool) -> Completion[None]:
        assert self.serving is not None
        self.serving.is_closing = True
        return self._slices.run_own(self._settle(self.serving.broker, is_handover=is_handover))

    def _settle(self, broker: Broker, *, is_handover: bool) -> Sliced[None]:
        if not broker.rounds.is_over:
            settling = broker.slices.run_own(broker.logs.settle(is_handover=is_handover))
            yield first_of(settling, pause(self.time, _FLUSH_MS))
        broker.logs.close()
        self._leave()

    def abandon(self) -> Completion[None]:
        self._leave()
        return Completion.of(None)


def address_of(node_id: int) -> tuple[str, int]:
    return f"node-{node_id}.example", PORT


EXPECTED_ENDS = (OSError, StartError)
"""Errors that end a process whose supervisor starts it again."""
