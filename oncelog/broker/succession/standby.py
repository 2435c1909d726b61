"""What a node does while another leads: it follows the leader's metadata log, and answers from that.

Owns: when that begins again. Does not own: how the log is followed (`follower`), what is answered
(`broker.assembly.standby`), who leads (`term`).
Invariant: it is interrupted at any step, and leaves nothing behind but sockets that are being opened (`clients`).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic

from oncelog.broker.storage.shared.tables import NOBODY
from oncelog.broker.succession.clients import Clients
from oncelog.broker.succession.follower import FellBehind, MetadataFollower
from oncelog.broker.succession.process import B, Process
from oncelog.broker.succession.standing import Standing
from oncelog.broker.succession.term import Term
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced
from oncelog.protocol.errors import KafkaError, ProtocolError

_FOLLOW_MS = 200
_AGAIN_MS = 200
"""After a failure to follow."""
_UNFOLLOWED = (FellBehind, KafkaError, ProtocolError, ValueError, OSError)
"""What it meets in a log that goes on without it, or has another past than before."""


class Standby(Generic[B]):
    def __init__(
        self,
        process: Process[B],
        clients: Clients[B],
        term: Term,
        standing: Standing,
        log: Any,
        on_serving: Callable[[], None],
    ) -> None:
        """`on_serving` is called whenever another broker answers."""
        self._process = process
        self._clients = clients
        self._term = term
        self._standing = standing
        self._log = log
        self._on_serving = on_serving
        self._serving: Sliced[None] | None = None
        self.follower: MetadataFollower | None = None
        """Which the broker that answers has."""
        self.failed: Completion[None] = Completion()
        """Fails with StartError if this process cannot stand by."""
        term.leader_seen.watch(lambda _: self._name_leader())

    def begin(self) -> None:
        """Another node leads than before: nothing that was followed can be trusted."""
        self.stop_following()
        self.follower = None
        # At once: the next look lets those answer who have waited for it.
        self._name_leader()
        self._serving = self._serve()
        self._term.slices.run_own(self._serving).then(self._on_end)

    def _name_leader(self) -> None:
        term = self._term
        self._clients.name_leader(term.leader_node_id if term.leader_seen.is_known else NOBODY)

    def stop_following(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.close()

    def _on_end(self, ended: Completion[None]) -> None:
        if ended.error is not None and not self.failed.done:
            self.failed.fail(ended.error)

    def _serve(self) -> Sliced[None]:
        """Raises StartError."""
        while True:
            try:
                yield from self._follow()
            except _UNFOLLOWED as error:
                reason = str(error) or type(error).__name__
                self._standing.unsettle(f"it cannot follow the leader: {reason}")
                self._log.info("standby.behind", error=reason, message="begins again to follow the leader")
                yield self._term.pause(_AGAIN_MS)

    def _follow(self) -> Sliced[None]:
        """Until it has fallen behind, or the tables are away for too long. Raises `_UNFOLLOWED`, StartError."""
        term, standing = self._term, self._standing
        follower = MetadataFollower(term.statements)
        yield from follower.load()
        broker = yield from self._process.assemble_standby(
            term.system, follower, term.roster.nodes, term.leader_node_id, term.leader_seen
        )
        broker.standing = standing
        addresses = yield from self._clients.go_to(broker)
        self.follower = follower
        standing.stand_by(term.roster, term.seen)
        term.roster.listen(addresses)
        self._on_serving()
        try:
            while True:
                standing.on_followed(follower.number)
                term.roster.follow(follower.number)
                yield term.pause(_FOLLOW_MS)
                yield from follower.follow()
        finally:
            term.roster.follow(NOBODY)

    def step_aside(self) -> Sliced[None]:
        """This node leads, and another broker has its clients: who has asked for the leader before gets its name."""
        if self.follower is not None:
            with suppress(*_UNFOLLOWED):
                yield from self.follower.follow()  # the epochs of this leadership
        self._clients.name_leader(self._term.terms.node_id)
        self._term.leader_seen.release()
