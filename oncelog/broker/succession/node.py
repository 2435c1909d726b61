"""One of several nodes over the same tables: it stands by until the lease is free, and leads until it is another's.

Owns: the order in which this process runs one broker after the other. Does not own: when a lease may be taken
(`storage.shared.lease`), the answers of a standby (`broker.assembly.standby`), how a broker starts and stops, and its
sockets (`Process`).
"""

from typing import Any, Generic

from oncelog.broker.config.settings import BrokerConfig, SettingsError, StartError
from oncelog.broker.storage.shared.followed import FollowedEnds
from oncelog.broker.storage.shared.lease import HeldLease, LeaseKeeper
from oncelog.broker.storage.shared.statements import Fenced
from oncelog.broker.storage.shared.store import SharedLogStore
from oncelog.broker.storage.shared.tables import NO_NODE, NewerTables, SeenNodes, WantLeader
from oncelog.broker.succession.clients import Clients
from oncelog.broker.succession.coordinators import maybe_create_coordinators
from oncelog.broker.succession.process import B, Process, Succession
from oncelog.broker.succession.standby import Standby
from oncelog.broker.succession.standing import Standing
from oncelog.broker.succession.term import Term
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.broker.turns.slices import Sliced
from oncelog.broker.turns.waiting import first_of, pause

_AGAIN_MS = 200
"""The pause after a failure to reach the database."""
_NOTICE_MS = 1_000
_PATIENCE_MS = 120_000
"""How long the database may be away: as for a leader (`storage.shared.statements`)."""


class Node(Generic[B]):
    def __init__(
        self, process: Process[B], config: BrokerConfig, system: System, log: Any, stopping: Completion[Any]
    ) -> None:
        """The node ends when `stopping` completes; if it leads, it hands over to a node that stands by."""
        self._process = process
        self._config = config
        self._system = system
        self._log = log
        self._stopping = stopping
        self._clients = Clients(process)
        self._has_served = False
        self._failing_since: MonotonicMs | None = None
        self.standing = Standing(system.clock, process.terms().node_id)
        self.term: Term
        self.standby: Standby[B]

    def run(self) -> Sliced[None]:
        """Run one term after the other until the node is stopped. Raises StartError."""
        while not self._stopping.done:
            problem: StartError | None = None
            term = self.term = Term(self._config, self._system, self._log, self._process.terms())
            self.standby = Standby(self._process, self._clients, term, self.standing, self._log, self._on_serving)
            try:
                yield from self._run_term()
            except StartError as error:
                problem = error
            yield from self._end_term()
            if problem is not None:
                yield from self._pause_or_raise(problem)

    def _run_term(self) -> Sliced[None]:
        """Stand by, then lead. Raises StartError."""
        self.standing.unsettle("it does not know the leader yet")
        tables = yield from self._process.open_tables(self.term.system)
        yield from self.term.begin(tables, self._process.outage_listener())
        held = yield from self._stand_by()
        if held is not None:
            yield from self._lead(held)

    def _end_term(self) -> Sliced[None]:
        self.standby.stop_following()
        yield from self._clients.abandon()
        yield from self.term.end()
        if self.term.tables is not None:
            yield self._process.close_tables(self.term.tables)

    def _pause_or_raise(self, problem: StartError) -> Sliced[None]:
        """Pause before the next term, or raise the problem. A first start fails at once; a process that has served
        retries for as long as a leader does. One that lost the lease while it began to lead stands by without a pause.
        """
        if isinstance(problem.__cause__, Fenced):
            self._log.warning("lease.lost", message=str(problem))
            return
        monotonic_ms = self._system.clock.monotonic_ms()
        if self._failing_since is None:
            self._failing_since = monotonic_ms
        is_out_of_patience = not self._has_served or monotonic_ms - self._failing_since > _PATIENCE_MS
        if is_out_of_patience or isinstance(problem, SettingsError):
            raise problem
        self._log.warning("database.away", error=str(problem), message="tries again until it is back")
        yield pause(self._system.scheduler, _AGAIN_MS)

    def _on_serving(self) -> None:
        self._has_served, self._failing_since = True, None
        self._process.announce()

    def _stand_by(self) -> Sliced[HeldLease | None]:
        """Stand by until the lease is ours, and return it; None if the process stops before. Raises StartError."""
        standby = self.standby
        taking = self.term.take(standby.begin)
        yield first_of(taking, self._stopping, standby.failed)
        standby.stop_following()
        if taking.done:
            return self._taken(taking)
        if not self._stopping.done:
            standby.failed.result()
        return None

    def _taken(self, taking: Completion[HeldLease]) -> HeldLease:
        """Return the lease. Raises StartError, after which the node retries for a while; SettingsError, which ends it,
        for tables of a newer release."""
        place = self._config.place
        try:
            return taking.result()
        except NewerTables as error:
            raise SettingsError(f"cannot lead from {place.name}: {error}.") from error
        except OSError as error:
            raise StartError(f"cannot stand by over {place.name}: {error}") from error

    # -- leading

    def _lead(self, held: HeldLease) -> Sliced[None]:
        """Lead until the process stops, another node is wanted, or another has taken the lease. Raises StartError."""
        term, standing, epoch = self.term, self.standing, held.taken.epoch
        self._log.info("lease.taken", epoch=epoch, node_id=term.terms.node_id, before=term.leader_node_id)
        standing.unsettle("it has the lease, and begins to lead")
        succession = Succession(term.tables, term.terms, held, term.roster.nodes, standing)
        nodes_seen = term.roster.look_now()
        broker = yield from self._process.assemble_leader(term.system, succession)
        # Answers that name this node must not list the one that led before: clients are to leave that one.
        yield first_of(nodes_seen, self._stopping, term.over)
        addresses = yield from self._clients.go_to(broker)
        store = broker.logs.store
        ends = store.followed_ends if isinstance(store, SharedLogStore) else FollowedEnds()
        standing.lead(term.roster, epoch, term.before, term.free, ends.at)
        term.roster.listen(addresses)
        term.roster.watch(lambda seen: self._on_seen(broker, seen))
        term.is_leading = True
        self._on_serving()
        lease = broker.logs.store.lease
        if lease is not None and not lease.is_ours:
            # Requests that wait for the leader are answered once the lease is proven: this node may have been
            # suspended meanwhile.
            yield first_of(lease.when_confirmed(), self._stopping, term.over)
        if not term.over.done:
            yield from self.standby.step_aside()
        yield first_of(self._stopping, term.over)
        if not term.is_lost:
            yield from self._hand_over(broker)
            return
        self._log.warning(
            "lease.lost",
            led_seconds=round(standing.seconds, 1),
            message=f"{term.lost_reason}; this node was suspended, or did not reach PostgreSQL",
        )

    def _on_seen(self, broker: B, seen: SeenNodes) -> None:
        term, store = self.term, broker.logs.store
        if seen.wanted not in (NO_NODE, term.terms.node_id) and seen.wanted in term.roster.standing_by:
            term.want(seen.wanted)
        if isinstance(store, SharedLogStore):
            store.await_successor(is_there=bool(term.roster.standing_by))
        if term.roster.nodes.others:
            maybe_create_coordinators(broker.topics)

    def _hand_over(self, broker: B) -> Sliced[None]:
        term, lease = self.term, broker.logs.store.lease
        successor = term.roster.successor if term.wanted == NO_NODE else term.wanted
        if isinstance(lease, LeaseKeeper):
            lease.successor = successor
        self._log.info(
            "broker.stopping",
            successor=successor,
            led_seconds=round(self.standing.seconds, 1),
            message=self._why(successor),
        )
        self.standing.unsettle("it has stopped leading")
        if successor not in (NO_NODE, term.wanted):
            # Nodes that stand by see it before clients ask them for the leader.
            yield first_of(term.statements.once(WantLeader(successor)), term.pause(_NOTICE_MS))
        yield from self._clients.stop(is_handover=successor != NO_NODE)
        self._log.info("broker.stopped")

    def _why(self, successor: int) -> str:
        if not self._stopping.done:
            return f"an operator wants node {successor} to lead; stands by from now on"
        return "no node stands by" if successor == NO_NODE else f"hands over to node {successor}"
