"""A term of a node: from one connection to the tables to the end of a leadership.

Owns: the lease as it was seen, whether its leadership is over, and which failures matter. Does not own: the steps of a
node (`node`).
Invariant: nothing of one term is left in the next: each has its own scheduler, which ends, and its own connections.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oncelog.broker.config.settings import BrokerConfig, SettingsError, StartError
from oncelog.broker.storage.shared.lease import Free, HeldLease, LeaseTerms, keep_lease, take_lease
from oncelog.broker.storage.shared.outage import OutageListener
from oncelog.broker.storage.shared.statements import Fenced, RoundsLost, Statements
from oncelog.broker.storage.shared.tables import NO_NODE, Lease, TakenLease
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.roster import NodeIdTaken, Roster
from oncelog.broker.system.ending import EndingScheduler
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.ports import MonotonicMs
from oncelog.broker.turns.slices import Sliced, Slices
from oncelog.broker.turns.waiting import pause


class WaitLog:
    """Logs once which owner of the lease a start waits for."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._owner = ""

    def __call__(self, seen: Lease) -> None:
        if seen.owner != self._owner:
            self._owner = seen.owner
            self._log.info(
                "lease.waiting",
                owner=seen.owner,
                leader=seen.node_id,
                message="another broker leads, or has not given the lease back; waits until it is free",
            )


class Term:
    def __init__(self, config: BrokerConfig, system: System, log: Any, terms: LeaseTerms) -> None:
        self._config = config
        self._log = log
        self._on_failure = system.on_disk_failure
        self._scheduler = EndingScheduler(system.scheduler)
        self.system = replace(system, scheduler=self._scheduler, on_disk_failure=self._on_disk_failure)
        self.slices = Slices(self._scheduler)
        self.terms = terms
        self.leader_epoch = -1
        self.leader_node_id = NO_NODE
        """The id of the node that leads, or that led before this one."""
        self.leader_seen = LeaderSeen(system.clock, self._scheduler)
        self.seen: Lease
        """The newest lease of another node."""
        self.before: Lease
        """The lease that this node took over."""
        self.free: Free
        """Why that lease was free."""
        self.over: Completion[None] = Completion()
        """Completes once this node must stop leading."""
        self.is_leading = False
        """Whether it has begun to lead: before that a failure ends only this attempt."""
        self.is_lost = False
        self.lost_reason = ""
        self.wanted = NO_NODE
        self._wait_log = WaitLog(log)
        self.tables: Any = None
        self.statements: Statements
        self.roster: Roster

    def begin(self, tables: Any, outage_listener: OutageListener | None) -> Sliced[None]:
        """Begin the term over these connections, with the row of this node. Raises StartError."""
        terms, clock = self.terms, self.system.clock
        self.tables = tables
        place = self._config.place
        self.statements = Statements(tables, self._scheduler, clock, outage_listener)
        self.roster = Roster(self.statements, clock, self._scheduler, terms.node_id, terms.owner, terms.lease_ms)
        try:
            yield from self.roster.begin(self._on_wait)
        except NodeIdTaken as error:
            raise SettingsError(
                f"cannot start from {place.name}: {error}; stop it, or give this one a node.id of its own "
                "with --node-id, or another schema with --schema."
            ) from error
        except OSError as error:
            raise StartError(f"cannot start from {place.name}: {error}") from error

    def _on_wait(self, owner: str) -> None:
        self._log.info("node.waiting", owner=owner, message="it has this node.id, and may have ended a moment ago")

    def take(self, on_leader: Callable[[], None]) -> Completion[HeldLease]:
        """Completes once the lease is ours, and is being renewed. `on_leader` is called for each new leader."""

        def on_seen(seen: Lease, asked_at_ms: MonotonicMs) -> None:
            self._wait_log(seen)
            is_other = seen.node_id not in (NO_NODE, self.terms.node_id)
            if is_other:
                self.seen = seen
            if is_other and seen.epoch != self.leader_epoch:
                self.leader_epoch, self.leader_node_id = seen.epoch, seen.node_id
                self.roster.look_now()
                on_leader()
            elif self.roster.is_current:  # else answers that name the next leader would list the one deposed
                self.leader_seen.on_look(seen, asked_at_ms)

        taking: Sliced[TakenLease] = take_lease(
            *(self.statements, self.system.clock, self._scheduler, self.terms, on_seen, self._on_taken)
        )
        return self.slices.run_own(taking).map(
            lambda taken: keep_lease(self.statements, self.system.clock, self._scheduler, taken, self.terms)
        )

    def _on_taken(self, seen: Lease, free: Free) -> None:
        self.before, self.free = seen, free

    def pause(self, delay_ms: int) -> Completion[None]:
        return pause(self._scheduler, delay_ms)

    def want(self, node_id: int) -> None:
        """Note that an operator wants that node to lead, and stop leading."""
        self.wanted = node_id
        self._is_over()

    def _on_disk_failure(self, error: OSError) -> None:
        if self.is_lost:
            return  # what fails now is of a leadership that is over
        if isinstance(error, Fenced) or not (self.is_leading or isinstance(error, RoundsLost)):
            self.is_lost, self.lost_reason = True, str(error)
            self._is_over()
        else:
            self._on_failure(error)

    def _is_over(self) -> None:
        if not self.over.done:
            self.over.complete(None)

    def end(self) -> Sliced[None]:
        """End the term: mark this node as ended, and stop its statements and timers."""
        if self.tables is not None:
            yield self.roster.end()
            self.statements.end()
        self._scheduler.end()
