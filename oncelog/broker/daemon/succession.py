"""One of several nodes over the same tables, as a process with sockets and an event loop.

Owns: what the node is given (`broker.succession.process`): the listening sockets, which outlive each broker that the
process is: a client that connects in between waits; the tasks in which a broker starts and stops
(`broker.daemon.running`). Does not own: when it is which broker (`broker.succession.node`).
"""

import asyncio
from collections.abc import Callable, Sequence
from socket import socket
from typing import TYPE_CHECKING, Any

from oncelog.broker.admin.kept_port import KeptPort
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.assembly.broker import assemble
from oncelog.broker.assembly.postgres import open_tables, terms_of
from oncelog.broker.assembly.standby import assemble_standby
from oncelog.broker.cluster.nodes import Nodes
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.daemon.running import RunningBroker, done
from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.net.listener import Listeners
from oncelog.broker.observability.troubles import TroubleLog
from oncelog.broker.requests.dispatch import RunInThread, import_api
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.shared.lease import LeaseTerms
from oncelog.broker.storage.shared.tables import NodeAddress
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.node import Node
from oncelog.broker.succession.process import Succession
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.slices import Sliced, Slices

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults


class NodeProcess:
    def __init__(
        self,
        config: BrokerConfig,
        system: System,
        log: Any,
        stop: asyncio.Event,
        on_ready: Callable[[RunningBroker], None],
        *,
        faults: "Faults | None" = None,
        connection_count: int | None = None,
        run_in_thread: RunInThread | None = None,
        busy_poll: BusyPoll | None = None,
    ) -> None:
        """`stop` ends it, with the standby as its leader, if there is one. `on_ready` is called whenever this process
        is another broker. The others are as in `RunningBroker.start`."""
        self._config = config
        self._system = system
        self._log = log
        self._stop = stop
        self._on_ready = on_ready
        self._faults = faults
        self._connection_count = connection_count
        self._run_in_thread = run_in_thread
        self._busy_poll = busy_poll
        self._running: RunningBroker | None = None
        self._kept: dict[str, list[socket]] = {}
        self._has_loaded = False
        self._coroutines = LoopCoroutines()
        self._slices = Slices(system.scheduler)
        self._node: Node[Broker] = Node(self, config, system, log, self._coroutines.run(stop.wait()))
        self._kept_metrics = KeptPort(lambda: self._node.standing.trouble)

    async def run(self) -> None:
        """Run the node until `stop`. Raises StartError."""
        try:
            await done(self._slices.run_own(self._node.run()))
        finally:
            for sockets in self._kept.values():
                for each in sockets:
                    each.close()
            await self._kept_metrics.close()

    # -- what the node is given

    def terms(self) -> LeaseTerms:
        return terms_of(self._config, self._system)

    def open_tables(self, system: System) -> Sliced[Any]:
        return open_tables(self._config, system, self._log)

    def outage_listener(self) -> TroubleLog:
        return TroubleLog(self._log, self._config.place.path)

    def close_tables(self, tables: Any) -> Completion[None]:
        return self._coroutines.run(tables.close())

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
        assembling = assemble(self._config, system, self._log, self._faults, None, succession)
        yield assembling
        return assembling.result()

    def serve(self, broker: Broker) -> Completion[Sequence[NodeAddress]]:
        return self._coroutines.run(self._serve(broker))

    async def _serve(self, broker: Broker) -> list[NodeAddress]:
        if self._running is None:
            listeners = Listeners(broker, self._connection_count, self._run_in_thread, self._busy_poll, self._kept)
        else:
            listeners = await self._running.make_way()
        self._running = await RunningBroker.serve(
            self._config, broker, listeners, self._log, self._faults, self._kept_metrics
        )
        return [NodeAddress(each.name, each.advertised_host, each.advertised_port) for each in listeners.endpoints]

    def announce(self) -> None:
        running = self._running
        if running is not None:
            self._on_ready(running)
            if not running.broker.leadership.is_ours:
                self._load_code()

    def _load_code(self) -> None:
        """Load the code of every API, so that clients which wait for a new leader need not wait for it."""
        if self._run_in_thread is not None and not self._has_loaded:
            self._has_loaded = True
            self._run_in_thread(_import_all, lambda _: None)

    def stop_serving(self, *, is_handover: bool) -> Completion[None]:
        running, self._running = self._running, None
        if running is None:
            return Completion.of(None)
        if self._stop.is_set():
            running.listeners.kept = None
            self._kept.clear()
        return self._coroutines.run(running.stop(is_handover=is_handover))

    def abandon(self) -> Completion[None]:
        running, self._running = self._running, None
        return Completion.of(None) if running is None else self._coroutines.run(running.abandon())


def _import_all() -> None:
    for api in API_TABLE.values():
        import_api(api)
