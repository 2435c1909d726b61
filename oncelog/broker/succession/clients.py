"""The clients of this process, and the broker that serves them.

Owns: which broker serves the clients; an interrupted hand-over finishes opening its sockets. The leader that brokers
name while they do not lead.
Does not own: the sockets (`Process.serve`).
"""

from collections.abc import Sequence
from typing import Any, Generic

from oncelog.broker.storage.shared.tables import NO_NODE, NodeAddress
from oncelog.broker.succession.process import B, Process
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.slices import Sliced


class Clients(Generic[B]):
    def __init__(self, process: Process[B]) -> None:
        self._process = process
        self._brokers: list[B] = []
        """The broker that serves, after the one that still answers its last requests."""
        self._leader_node_id = NO_NODE
        self._opening: Completion[Any] = Completion.of(None)

    def go_to(self, broker: B) -> Sliced[Sequence[NodeAddress]]:
        """Have this broker serve the clients, and return the addresses for them. Raises StartError."""
        yield self._opening
        self._opening = opening = self._process.serve(broker)

        def on_open(opened: Completion[Sequence[NodeAddress]]) -> None:
            if opened.error is None:
                self._brokers = [*self._brokers[-1:], broker]
                self._name(broker)

        opening.then(on_open)
        yield opening
        return opening.result()

    def name_leader(self, node_id: int) -> None:
        """Set the leader that brokers name while they do not lead, in answers to waiting requests, too."""
        self._leader_node_id = node_id
        for broker in self._brokers:
            self._name(broker)

    def _name(self, broker: B) -> None:
        if not broker.leadership.is_ours:
            broker.leadership.leader_node_id = self._leader_node_id

    def stop(self, *, is_handover: bool) -> Sliced[None]:
        self._brokers = []
        yield self._process.stop_serving(is_handover=is_handover)

    def abandon(self) -> Sliced[None]:
        yield self._opening
        self._brokers = []
        yield self._process.abandon()
