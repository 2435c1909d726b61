"""The nodes of a cluster in PostgreSQL: their states, and a change of leader on an operator's wish.

Owns: the meaning of the tables' rows for an operator, which node may lead next, how a wish is waited for. Does not own:
the rows (`broker.storage.shared.tables`), which node takes the lease and when (`storage.shared.lease`), options and
printing (`cluster`).
Invariant: nothing here takes a lease. A wish that was not fulfilled in time is withdrawn.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple, TypeVar

from oncelog.broker.storage.postgres.preparing import connect, look
from oncelog.broker.storage.postgres.session import Server
from oncelog.broker.storage.postgres.tables import PostgresTables
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import (
    NO_NODE,
    Lease,
    LookAtLease,
    LookAtNodes,
    NodeRow,
    SeenNodes,
    Statement,
    WantLeader,
)
from oncelog.broker.succession.roster import best_successor, standing_by
from oncelog.broker.system.clock import SystemClock
from oncelog.broker.system.coroutines import LoopCoroutines
from oncelog.broker.system.loop import LoopScheduler
from oncelog.tools.terminal import Row

T = TypeVar("T")
_LOOK_S = 0.05
START_ANOTHER = "start another with `oncelog serve --storage DSN --node-id NUMBER`"


class CannotStepDown(Exception):
    """No other node can take over; the message says why, and what to do."""


class Cluster(NamedTuple):
    lease: Lease
    seen: SeenNodes

    @property
    def has_leader(self) -> bool:
        return self.lease.left_ms > 0

    @property
    def leader(self) -> int:
        """The node id of the leader; `NO_NODE` if no node leads."""
        return self.lease.node_id if self.has_leader else NO_NODE


class SteppedDown(NamedTuple):
    leader: int
    before: int
    epoch: int
    took_s: float


class NodesTables:
    """The rows of the nodes and of the lease, beside a cluster at work."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements

    async def look(self) -> Cluster:
        """Read the lease and the nodes. Raises OSError."""
        return Cluster(await self._ask(LookAtLease()), await self._ask(LookAtNodes()))

    async def want(self, node_id: int) -> None:
        """Ask the leader to give the lease to this node. Raises OSError."""
        await self._ask(WantLeader(node_id))

    async def _ask(self, statement: Statement[T]) -> T:
        answered = asyncio.Event()
        answer = self._statements.ask(statement)
        answer.then(lambda _: answered.set())
        await answered.wait()
        return answer.result()


@asynccontextmanager
async def nodes_tables(dsn: str | None, schema: str) -> AsyncIterator[NodesTables]:
    """Connect to the tables; `dsn` is as in `Server`. Raises Unusable, OSError."""
    scheduler = LoopScheduler(asyncio.get_running_loop(), "nodes")
    server = Server(dsn, schema, LoopCoroutines(), scheduler)
    connection = await connect(server)
    try:
        await look(server, connection)
    finally:
        await connection.close(timeout=5)
    tables = PostgresTables(server)
    try:
        yield NodesTables(Statements(tables, scheduler, SystemClock()))
    finally:
        await tables.close()
        scheduler.close()


def status_of(cluster: Cluster) -> Row:
    lease, seen = cluster
    return {
        "leader": None if cluster.leader == NO_NODE else cluster.leader,
        "owner": lease.owner if cluster.has_leader else None,
        "epoch": lease.epoch,
        "leading_seconds": round(lease.held_ms / 1000, 1) if cluster.has_leader else None,
        "lease_left_seconds": round(lease.left_ms / 1000, 1) if cluster.has_leader else None,
        "attended": lease.is_attended,
        "wanted": None if seen.wanted == NO_NODE else seen.wanted,
        "newest_round": seen.newest,
        "nodes": [_row_of(row, cluster) for row in seen.nodes],
    }


def _row_of(row: NodeRow, cluster: Cluster) -> Row:
    state = state_of(row, cluster)
    followed = row.followed if state == "stands by" else None
    return {
        "node_id": row.node_id,
        "state": state,
        "addresses": [f"{each.listener}://{each.host}:{each.port}" for each in row.addresses],
        "followed_round": followed,
        "rounds_behind": None if followed is None else max(0, cluster.seen.newest - followed),
        "owner": row.owner,
    }


def state_of(row: NodeRow, cluster: Cluster) -> str:
    if row.is_over:
        return "gone"
    if cluster.has_leader and row.owner == cluster.lease.owner:
        return "leads"
    return "stands by" if standing_by([row]) else "starts"


def hint_of(cluster: Cluster) -> str:
    """Return advice for the operator; empty if all is well."""
    waiting = standing_by(cluster.seen.nodes)
    if not cluster.has_leader:
        return "No node leads" + (": one that stands by does in a moment." if waiting else f": {START_ANOTHER}.")
    if not cluster.lease.is_attended:
        return "The leader has no connection to PostgreSQL: unless it has one soon, another node leads."
    return "" if waiting else f"No node stands by: {START_ANOTHER}."


def successor_for(cluster: Cluster, to: int | None) -> int:
    """Return the node that is to lead: `to`, or the best successor. Raises CannotStepDown."""
    lease, seen = cluster
    if not cluster.has_leader:
        raise CannotStepDown(
            f"no node leads: one that stands by takes over by itself; if there is none, {START_ANOTHER}"
        )
    if cluster.leader == NO_NODE:
        raise CannotStepDown(f"the broker {lease.owner} leads, and knows of no other nodes: stop it instead")
    if to is None:
        best = best_successor(standing_by(seen.nodes))
        if best == NO_NODE:
            raise CannotStepDown(f"no node stands by for node {cluster.leader}: {START_ANOTHER}")
        return best
    row = next((row for row in seen.nodes if row.node_id == to), None)
    if row is None:
        known = ", ".join(str(row.node_id) for row in seen.nodes) or "none"
        raise CannotStepDown(f"there is no node {to}; known ids: {known}")
    match state_of(row, cluster):
        case "gone":
            raise CannotStepDown(f"node {to} has ended, or does not reach PostgreSQL: start it again")
        case "starts":
            raise CannotStepDown(f"node {to} does not stand by yet: `oncelog cluster status` shows when it does")
    return to


async def step_down(tables: NodesTables, to: int | None, timeout_s: float) -> SteppedDown:
    """Have another node lead. Raises CannotStepDown, OSError."""
    begun_s = time.monotonic()
    before = await tables.look()
    successor = successor_for(before, to)
    if successor == before.leader:
        await tables.want(NO_NODE)  # an earlier wish ends
        return SteppedDown(successor, before.leader, before.lease.epoch, 0)
    await tables.want(successor)
    try:
        async with asyncio.timeout(timeout_s):
            after = await _next_leadership(tables, before.lease.epoch)
    except TimeoutError as error:
        await tables.want(NO_NODE)
        raise CannotStepDown(
            f"node {successor} does not lead after {timeout_s:g} s, and is not asked to any more: "
            f"the log of node {before.leader} says what it waits for"
        ) from error
    except asyncio.CancelledError:
        await tables.want(NO_NODE)
        raise
    if after.leader != successor:
        raise CannotStepDown(f"node {after.leader} leads now, and not node {successor}: ask again, if that matters")
    return SteppedDown(successor, before.leader, after.lease.epoch, time.monotonic() - begun_s)


async def _next_leadership(tables: NodesTables, epoch: int) -> Cluster:
    while True:
        seen = await tables.look()
        if seen.lease.epoch != epoch and seen.has_leader:
            return seen
        await asyncio.sleep(_LOOK_S)
