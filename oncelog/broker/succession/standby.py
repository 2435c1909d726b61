"""A node while another leads: it follows the leader's metadata log, and answers from that.

Owns: when following starts over. Does not own: how the log is followed (`follower`), the answers
(`broker.assembly.standby`), which node leads (`term`).
Invariant: it can be interrupted at any step, and leaves nothing behind but sockets that are being opened (`clients`).
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic

from oncelog.broker.storage.shared.tables import NO_NODE
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
"""The pause after a failure to follow."""
_UNFOLLOWED = (FellBehind, KafkaError, ProtocolError, ValueError, OSError)
"""Errors of a follower that fell behind, or whose log was replaced by one with another past."""


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
        """`on_serving` is called whenever a new broker serves."""
        self._process = process
        self._clients = clients
        self._term = term
        self._standing = standing
        self._log = log
        self._on_serving = on_serving
        self._serving: Sliced[None] | None = None
        self.follower: MetadataFollower | None = None
        """The follower of the broker that serves."""
        self.failed: Completion[None] = Completion()
        """Fails with StartError if this process cannot stand by."""
        term.leader_seen.watch(lambda _: self._name_leader())

    def begin(self) -> None:
        """Follow a new leader from the start: nothing that was followed before can be trusted."""
        self.stop_following()
        self.follower = None
        # At once: the next look releases the answers that wait for it.
        self._name_leader()
        self._serving = self._serve()
        self._term.slices.run_own(self._serving).then(self._on_end)

    def _name_leader(self) -> None:
        term = self._term
        self._clients.name_leader(term.leader_node_id if term.leader_seen.is_known else NO_NODE)

    def stop_following(self) -> None:
        serving, self._serving = self._serving, None
        if serving is not None:
            serving.close()

    def _on_end(self, ended: Completion[None]) -> None:
        if ended.error is not None and not self.failed.done:
            self.failed.fail(ended.error)

    def _serve(self) -> Sliced[None]:
        """Follow, and start over after each failure. Raises StartError."""
        while True:
            try:
                yield from self._follow()
            except _UNFOLLOWED as error:
                reason = str(error) or type(error).__name__
                self._standing.unsettle(f"it cannot follow the leader: {reason}")
                self._log.info("standby.behind", error=reason, message="starts over following the leader")
                yield self._term.pause(_AGAIN_MS)

    def _follow(self) -> Sliced[None]:
        """Load the metadata log, serve, and follow it. Raises one of `_UNFOLLOWED` when that fails; StartError."""
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
            term.roster.follow(NO_NODE)

    def step_aside(self) -> Sliced[None]:
        """Name this node as the leader in waiting answers: it leads now, and another broker has its clients."""
        if self.follower is not None:
            with suppress(*_UNFOLLOWED):
                yield from self.follower.follow()  # the epochs of this leadership
        self._clients.name_leader(self._term.terms.node_id)
        self._term.leader_seen.release()
