"""The row of this node, and those of the others.

Owns: when the row is renewed and the others are read, the refusal of a node id that another start has, when another
node last renewed its row, which is the best successor. Does not own: the tables (`storage.shared.tables`), the
addresses in answers to clients (`cluster.nodes`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from oncelog.broker.cluster.nodes import Nodes, OtherNode
from oncelog.broker.storage.shared.statements import Statements
from oncelog.broker.storage.shared.tables import (
    NO_NODE,
    DropNode,
    KeepNode,
    KeptNode,
    LookAtNodes,
    NodeAddress,
    NodeRow,
    SeenNodes,
)
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.ports import Clock, Scheduler
from oncelog.broker.turns.slices import Sliced
from oncelog.broker.turns.waiting import pause

_RENEWALS = 5
"""Renewals in the time of one lease."""
_LOOK_MS = 500
_TRY_MS = 100
_SOON_MS = 20
"""How soon the row is renewed after a change that others should see."""


def standing_by(rows: Iterable[NodeRow]) -> dict[int, int]:
    """Return the nodes among these that can lead at once, with the round up to which each has followed."""
    return {row.node_id: row.followed for row in rows if row.followed != NO_NODE and not row.is_over}


def best_successor(standing_by: Mapping[int, int]) -> int:
    """Return the node that has followed furthest; `NO_NODE` if there is none."""
    return max(standing_by, key=lambda node_id: (standing_by[node_id], -node_id), default=NO_NODE)


class NodeIdTaken(OSError):
    """Another start has this node id, and is alive."""

    def __init__(self, node_id: int, owner: str) -> None:
        super().__init__(f"the broker {owner} is at work on it as node {node_id}")
        self.owner = owner


class Roster:
    def __init__(
        self, statements: Statements, clock: Clock, scheduler: Scheduler, node_id: int, owner: str, lease_ms: int
    ) -> None:
        self._statements = statements
        self._clock = clock
        self._scheduler = scheduler
        self._row = NodeRow(node_id, owner, ())
        self._lease_ms = lease_ms
        self._is_over = False
        self._is_due = self._is_keeping = False
        self.nodes = Nodes(node_id)
        self.seen = SeenNodes((), 0, NO_NODE)
        self._seen_at_ms = clock.monotonic_ms()
        self._on_seen: Callable[[SeenNodes], None] = lambda _: None
        self._unseen: list[Completion[None]] = []
        """The unfinished calls of `look_now`."""

    def begin(self, on_wait: Callable[[str], None]) -> Sliced[None]:
        """Acquire the node id, and begin to renew the row. `on_wait` is called with the name of another start that has
        the id; it may have ended a moment ago. Raises OSError, and NodeIdTaken once the row of that start has changed
        three times: after its end one statement in flight may change it, and a new leader that deposes it."""
        seen: KeptNode | None = None
        changes = 0
        while True:
            keeping = self._statements.ask(KeepNode(self._row, self._lease_ms))
            yield keeping
            kept = keeping.result()
            if kept.is_kept:
                break
            if seen is None:
                on_wait(kept.owner)
            elif kept != seen:
                changes += 1
            seen = kept
            if changes == 3:
                raise NodeIdTaken(self._row.node_id, kept.owner)
            yield pause(self._scheduler, _TRY_MS)
        yield from self.look()
        self._scheduler.call_later(self._lease_ms / _RENEWALS, self._renew)
        self._scheduler.call_later(_LOOK_MS, self._look_again)

    def watch(self, on_seen: Callable[[SeenNodes], None]) -> None:
        """Call `on_seen` with the result of each look."""
        self._on_seen = on_seen

    def listen(self, addresses: Sequence[NodeAddress]) -> None:
        """Publish the addresses of this node."""
        self._row = self._row._replace(addresses=tuple(addresses))
        self._keep_soon()

    def follow(self, number: int) -> None:
        """Publish the round up to which this node knows the metadata log, with the next renewal."""
        self._row = self._row._replace(followed=number)

    def _keep_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._scheduler.call_later(_SOON_MS, self._keep)

    def _keep(self) -> None:
        self._is_due = False
        if not self._is_over and not self._is_keeping:
            self._is_keeping = True
            row = self._row
            self._statements.ask(KeepNode(row, self._lease_ms)).then(lambda _: self._on_kept(row))

    def _on_kept(self, row: NodeRow) -> None:
        self._is_keeping = False
        if row.addresses != self._row.addresses:
            self._keep_soon()

    def _renew(self) -> None:
        if not self._is_over:
            self._scheduler.call_later(self._lease_ms / _RENEWALS, self._renew)
            self._keep()

    def look(self) -> Sliced[None]:
        """Read the rows of all nodes. Raises OSError."""
        looking = self._statements.ask(LookAtNodes())
        yield looking
        self._take(looking.result())

    def _look_again(self) -> None:
        if self._is_over:
            return

        def on_answer(answer: Completion[SeenNodes]) -> None:
            if answer.error is None and not self._is_over:
                self._take(answer.result())
            self._scheduler.call_later(_LOOK_MS, self._look_again)

        self._statements.ask(LookAtNodes()).then(on_answer)

    def _take(self, seen: SeenNodes) -> None:
        self.seen, self._seen_at_ms = seen, self._clock.monotonic_ms()
        self.nodes.others = [
            OtherNode(row.node_id, {each.listener: (each.host, each.port) for each in row.addresses}, row.is_over)
            for row in self.others
        ]
        self._on_seen(seen)

    def look_now(self) -> Completion[None]:
        """Read the rows of all nodes now. Completes once that has worked: a node just deposed is over by then."""
        seen: Completion[None] = Completion()
        self._unseen.append(seen)

        def on_answer(answer: Completion[SeenNodes]) -> None:
            if self._is_over:
                return
            if answer.error is not None:
                self._scheduler.call_later(_TRY_MS, ask)
                return
            self._take(answer.result())
            self._unseen.remove(seen)
            seen.complete(None)

        def ask() -> None:
            if not self._is_over:
                self._statements.ask(LookAtNodes()).then(on_answer)

        ask()
        return seen

    @property
    def is_current(self) -> bool:
        """Whether the nodes were read since the last call of `look_now`."""
        return not self._unseen

    @property
    def others(self) -> list[NodeRow]:
        return [row for row in self.seen.nodes if row.node_id != self._row.node_id]

    def silent_ms(self, row: NodeRow) -> float:
        """Return the time since another node renewed its row, if its `lease_ms` is that of this node."""
        return max(0, self._lease_ms - row.left_ms) + self._clock.monotonic_ms() - self._seen_at_ms

    @property
    def standing_by(self) -> dict[int, int]:
        """The other nodes that can lead at once, with the round up to which each has followed."""
        return standing_by(self.others)

    @property
    def successor(self) -> int:
        """The node to hand over to; `NO_NODE` if none stands by."""
        return best_successor(self.standing_by)

    def end(self) -> Completion[None]:
        """Mark this node as ended, and renew its row no longer."""
        self._is_over = True
        return self._statements.once(DropNode(self._row.node_id, self._row.owner))
