"""One of several nodes over the same tables: it stands by until the lease is free, and leads until it is another's.

Owns: the order in which this process is one broker after the other, and the listening sockets, which outlive each of
them: a client that connects in between waits. Does not own: when a lease may be taken (`storage.shared.lease`), what a
standby answers (`assembly.standby`), how a broker starts and stops (`broker.daemon.running`).

A *term* is the time from one connection to the tables to the end of a leadership. Nothing of one is left in the next:
it has a scheduler of its own, that ends, and connections of its own.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from socket import socket
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.broker.admin.kept_port import KeptPort
from oncelog.broker.apis.table import API_TABLE
from oncelog.broker.assembly.broker import StartError
from oncelog.broker.assembly.directory import SettingsError
from oncelog.broker.assembly.postgres import Succession, WaitLog, open_tables, terms_of
from oncelog.broker.assembly.standby import assemble_standby
from oncelog.broker.config.settings import BrokerConfig
from oncelog.broker.daemon.running import RunningBroker, done, ended
from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.net.listener import Listeners
from oncelog.broker.requests.dispatch import RunInThread, import_api
from oncelog.broker.requests.parts import Broker
from oncelog.broker.storage.shared.lease import LeaseKeeper, take_lease
from oncelog.broker.storage.shared.statements import Fenced, RoundsLost, Statements
from oncelog.broker.storage.shared.store import SharedLogStore
from oncelog.broker.storage.shared.tables import NOBODY, Lease, NodeAddress, SeenNodes, TakenLease, WantLeader
from oncelog.broker.succession.coordinators import maybe_create_coordinators
from oncelog.broker.succession.follower import FellBehind, MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.roster import NodeIdTaken, Roster
from oncelog.broker.succession.standing import Standing
from oncelog.broker.system.ending import EndingScheduler
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.protocol.errors import KafkaError, ProtocolError

if TYPE_CHECKING:
    from oncelog.broker.faults.faults import Faults

_FOLLOW_MS = 200
_AGAIN_MS = 200
"""After a failure to follow, or to reach the database."""
_NOTICE_S = 1
_PATIENCE_MS = 120_000
"""As a leader has (`storage.shared.statements`)."""

T = TypeVar("T")


class Node:
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
        self.config = config
        self._system = system
        self.log = log
        self._stop = stop
        self.on_ready = on_ready
        self._faults = faults
        self._connection_count = connection_count
        self._run_in_thread = run_in_thread
        self._busy_poll = busy_poll
        self._kept: dict[str, list[socket]] = {}
        self._has_served = self._has_loaded = False
        self._failing_since: MonotonicMs | None = None
        self.standing = Standing(system.clock, terms_of(config, system).node_id)
        self.kept_metrics = KeptPort(lambda: self.standing.trouble)

    async def run(self) -> None:
        """Until `stop`. Raises StartError."""
        try:
            while not self._stop.is_set():
                try:
                    await self._term()
                except StartError as error:
                    if isinstance(error, SettingsError) or self._is_out_of_patience():
                        raise
                    self.log.warning("database.away", error=str(error), message="tries again until it is back")
                    await asyncio.sleep(_AGAIN_MS / 1000)
        finally:
            for sockets in self._kept.values():
                for each in sockets:
                    each.close()
            await self.kept_metrics.close()

    def _is_out_of_patience(self) -> bool:
        """A first start fails at once; a process that has served waits as long as a leader does."""
        monotonic_ms = self._system.clock.monotonic_ms()
        if self._failing_since is None:
            self._failing_since = monotonic_ms
        return not self._has_served or monotonic_ms - self._failing_since > _PATIENCE_MS

    def on_serving(self, running: RunningBroker) -> None:
        self._has_served, self._failing_since = True, None
        self.on_ready(running)

    def load_code(self) -> None:
        """Of every API, so that it need not be done while clients wait for a new leader."""
        if self._run_in_thread is not None and not self._has_loaded:
            self._has_loaded = True
            self._run_in_thread(_import_all, lambda _: None)

    async def _term(self) -> None:
        self.standing.unsettle("it has not found out yet who leads")
        term = _Term(self.config, self._system, self.log)
        try:
            await term.begin()
            standby = _Standby(self, term)
            try:
                taken = await self._stand_by(term, standby)
                if taken is not None:
                    await self._lead(term, taken, standby)
            finally:
                await standby.end()
        finally:
            await term.end()

    def listeners_of(self, broker: Broker) -> Listeners:
        return Listeners(broker, self._connection_count, self._run_in_thread, self._busy_poll, self._kept)

    async def _stand_by(self, term: "_Term", standby: "_Standby") -> TakenLease | None:
        """Until the lease is ours; None if the process stops before."""
        taking = asyncio.ensure_future(done(term.take()))
        stopping = asyncio.ensure_future(self._stop.wait())
        try:
            while True:
                changed = asyncio.ensure_future(term.leader_changed.wait())
                waited_for = [taking, stopping, changed, *standby.tasks]
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
                changed.cancel()
                if taking.done() or self._stop.is_set():
                    return await taking if taking.done() else None
                for task in standby.tasks:
                    if task.done():
                        task.result()  # it ends with an error alone: StartError, if it cannot listen
                if term.leader_changed.is_set():
                    term.leader_changed.clear()
                    await standby.begin()
        finally:
            stopping.cancel()
            taking.cancel()

    # -- leading

    async def _lead(self, term: "_Term", taken: TakenLease, standby: "_Standby") -> None:
        """Until the process stops, another node is wanted, or has taken the lease."""
        self.log.info("lease.taken", epoch=taken.epoch, node_id=term.terms.node_id, before=term.leader_node_id)
        self.standing.unsettle("it has the lease, and begins to lead")
        await standby.stop_following()
        running = await RunningBroker.start(
            self.config,
            term.system,
            self.log,
            faults=self._faults,
            connection_count=self._connection_count,
            run_in_thread=self._run_in_thread,
            busy_poll=self._busy_poll,
            kept=self._kept,
            kept_metrics=self.kept_metrics,
            succession=Succession(term.tables, term.terms, taken, term.roster.nodes, self.standing),
            before=standby.running,
        )
        self.standing.lead(term.roster, taken.epoch, term.before)
        term.roster.listen(_addresses(running))
        term.roster.watch(lambda seen: self._on_seen(term, running, seen))
        term.is_leading = True
        self.on_serving(running)
        await standby.step_aside()
        stopping = asyncio.ensure_future(self._stop.wait())
        ending = asyncio.ensure_future(term.over.wait())
        try:
            await asyncio.wait([stopping, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            ending.cancel()
        if term.is_lost:
            self.log.warning(
                "lease.lost",
                led_seconds=round(self.standing.seconds, 1),
                message="another node has taken the lease: this one stood still, or did not reach PostgreSQL",
            )
            await running.abandon()
            return
        await self._hand_over(term, running)

    def _on_seen(self, term: "_Term", running: RunningBroker, seen: SeenNodes) -> None:
        if seen.wanted not in (NOBODY, term.terms.node_id) and seen.wanted in term.roster.standing_by:
            term.wanted = seen.wanted
            term.over.set()
        store = running.broker.logs.store
        if isinstance(store, SharedLogStore):
            store.await_successor(is_there=bool(term.roster.standing_by))
        if term.roster.nodes.others:
            maybe_create_coordinators(running.broker.topics)

    async def _hand_over(self, term: "_Term", running: RunningBroker) -> None:
        successor = term.roster.successor if term.wanted == NOBODY else term.wanted
        lease = running.broker.logs.store.lease
        if isinstance(lease, LeaseKeeper):
            lease.successor = successor
        if self._stop.is_set():
            running.listeners.kept = None
            self._kept.clear()
        self.log.info(
            "broker.stopping",
            successor=successor,
            led_seconds=round(self.standing.seconds, 1),
            message=self._why(successor),
        )
        self.standing.unsettle("it has stopped to lead")
        if successor not in (NOBODY, term.wanted):
            # Those that stand by know it before clients ask them whether this node leads.
            with suppress(TimeoutError):
                await asyncio.wait_for(ended(term.statements.once(WantLeader(successor))), _NOTICE_S)
        await running.stop(is_handover=successor != NOBODY)
        self.log.info("broker.stopped")

    def _why(self, successor: int) -> str:
        if not self._stop.is_set():
            return f"an operator wants node {successor} to lead; stands by from now on"
        return "no node stands by" if successor == NOBODY else f"hands over to node {successor}"


class _Standby:
    """What this process answers while another node leads."""

    def __init__(self, node: Node, term: "_Term") -> None:
        self._node = node
        self._term = term
        self.running: RunningBroker | None = None
        self._follower: MetadataFollower | None = None
        self.tasks: list[asyncio.Task[None]] = []
        """At most one, that serves."""

    async def begin(self) -> None:
        """Another node leads than before: nothing that was followed can be trusted."""
        await self.stop_following()
        self.tasks = [asyncio.create_task(self._serve())]

    async def end(self) -> None:
        await self.stop_following()
        running, self.running = self.running, None
        if running is not None:
            await running.abandon()

    async def stop_following(self) -> None:
        tasks, self.tasks = self.tasks, []
        for task in tasks:
            task.cancel()
            await asyncio.wait([task])

    async def _serve(self) -> None:
        """Anew whenever it has fallen behind."""
        node, term = self._node, self._term
        while True:
            try:
                self._follower = follower = MetadataFollower(term.statements)
                await done(term.slices.run_own(follower.load()))
                nodes, leader = term.roster.nodes, term.leader_node_id
                assembling = assemble_standby(
                    node.config, term.system, node.log, follower, nodes, leader, term.leader_seen
                )
                broker = await done(term.slices.run_own(assembling))
                broker.standing = node.standing
                self._name_leader(leader)
                before = self.running
                listeners = node.listeners_of(broker) if before is None else await before.make_way()
                self.running = await RunningBroker.serve(
                    node.config, broker, listeners, node.log, kept_metrics=node.kept_metrics
                )
                node.standing.stand_by(term.roster, term.seen)
                term.roster.listen(_addresses(self.running))
                node.on_serving(self.running)
                node.load_code()
                while True:
                    node.standing.on_followed(follower.number)
                    term.roster.follow(follower.number)
                    await asyncio.sleep(_FOLLOW_MS / 1000)
                    await done(term.slices.run_own(follower.follow()))
            except (FellBehind, KafkaError, ProtocolError, ValueError, OSError) as error:
                reason = str(error) or type(error).__name__
                node.standing.unsettle(f"it cannot follow the leader: {reason}")
                node.log.info("standby.behind", error=reason, message="begins again to follow the leader")
                await asyncio.sleep(_AGAIN_MS / 1000)
            finally:
                term.roster.follow(NOBODY)

    def _name_leader(self, node_id: int) -> None:
        """To those who have asked the broker before."""
        if self.running is not None:
            self.running.broker.leadership.leader_node_id = node_id

    async def step_aside(self) -> None:
        """This process leads, and has the clients: who has asked before for the leader is told so."""
        running, self.running = self.running, None
        if running is not None and self._follower is not None:
            with suppress(FellBehind, KafkaError, ProtocolError, ValueError, OSError):
                await done(self._term.slices.run_own(self._follower.follow()))  # the epochs of this leadership
            running.broker.leadership.leader_node_id = self._term.terms.node_id
        self._term.leader_seen.release()


class _Term:
    def __init__(self, config: BrokerConfig, system: System, log: Any) -> None:
        self._config = config
        self._log = log
        self._on_failure = system.on_disk_failure
        self._scheduler = EndingScheduler(system.scheduler)
        self.system = replace(system, scheduler=self._scheduler, on_disk_failure=self._on_disk_failure)
        self.slices = Slices(self._scheduler)
        self.terms = terms_of(config, system)
        self.leader_changed = asyncio.Event()
        """Another node leads, or another than before."""
        self.leader_node_id = NOBODY
        self._leader_epoch = -1
        self.leader_seen = LeaderSeen(system.clock, self._scheduler)
        self.seen: Lease
        """The newest of another node."""
        self.before: Lease
        """Which was taken."""
        self.over = asyncio.Event()
        """This node is to lead no more."""
        self.is_leading = False
        """It has begun to: until then a failure is that of this attempt."""
        self.is_lost = False
        self.wanted = NOBODY
        self._wait_log = WaitLog(log)
        self.tables: Any = None
        self.statements: Statements
        self.roster: Roster

    async def begin(self) -> None:
        """Raises StartError."""
        self.tables = await done(self.slices.run_own(open_tables(self._config, self.system, self._log)))
        clock = self.system.clock
        self.statements = Statements(self.tables, self._scheduler, clock)
        terms = self.terms
        self.roster = Roster(self.statements, clock, self._scheduler, terms.node_id, terms.owner, terms.lease_ms)
        try:
            await done(self.slices.run_own(self.roster.begin(self._on_wait)))
        except NodeIdTaken as error:
            raise SettingsError(
                f"cannot start from {self._config.place.name}: {error}; stop it, or give this one a node.id of its own "
                "with --node-id, or another schema with --schema."
            ) from error
        except OSError as error:
            raise StartError(f"cannot start from {self._config.place.name}: {error}") from error

    def _on_wait(self, owner: str) -> None:
        self._log.info("node.waiting", owner=owner, message="it has this node.id, and may have ended a moment ago")

    def take(self) -> Completion[TakenLease]:
        taking: Sliced[TakenLease] = take_lease(
            *(self.statements, self.system.clock, self._scheduler, self.terms, self._on_seen, self._on_taken)
        )
        return self.slices.run_own(taking)

    def _on_taken(self, seen: Lease) -> None:
        self.before = seen

    def _on_seen(self, seen: Lease, asked_at_ms: MonotonicMs) -> None:
        self._wait_log(seen)
        if seen.node_id not in (NOBODY, self.terms.node_id):
            self.seen = seen
        if seen.epoch != self._leader_epoch and seen.node_id not in (NOBODY, self.terms.node_id):
            self._leader_epoch, self.leader_node_id = seen.epoch, seen.node_id
            self.leader_changed.set()
        else:
            self.leader_seen.on_look(seen, asked_at_ms)

    def _on_disk_failure(self, error: OSError) -> None:
        if self.is_lost:
            return  # what fails now is of a leadership that is over
        if isinstance(error, Fenced) or not (self.is_leading or isinstance(error, RoundsLost)):
            self.is_lost = True
            self.over.set()
        else:
            self._on_failure(error)

    async def end(self) -> None:
        if self.tables is None:
            return
        if hasattr(self, "roster"):
            leaving = asyncio.Event()
            self.roster.end().then(lambda _: leaving.set())
            await leaving.wait()
        self._scheduler.end()
        await self.tables.close()


def _import_all() -> None:
    for api in API_TABLE.values():
        import_api(api)


def _addresses(running: RunningBroker) -> list[NodeAddress]:
    return [NodeAddress(each.name, each.advertised_host, each.advertised_port) for each in running.listeners.endpoints]
