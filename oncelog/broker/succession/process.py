"""The interfaces between one of several nodes and its process: sockets and PostgreSQL in the daemon, neither in
simulation.

Owns: only the interfaces. Does not own: when a node calls them (`node`, `standby`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from oncelog.broker.cluster.leadership import Leadership
from oncelog.broker.cluster.nodes import Nodes
from oncelog.broker.cluster.topics import Topics
from oncelog.broker.log.log_manager import LogManager
from oncelog.broker.storage.shared.lease import HeldLease, LeaseTerms
from oncelog.broker.storage.shared.outage import OutageListener
from oncelog.broker.storage.shared.tables import NodeAddress
from oncelog.broker.succession.follower import MetadataFollower
from oncelog.broker.succession.leader_seen import LeaderSeen
from oncelog.broker.succession.standing import Standing
from oncelog.broker.turns.completion import Completion
from oncelog.broker.turns.machine import System
from oncelog.broker.turns.slices import Sliced


class NodeBroker(Protocol):
    """The broker that this process runs for a while, as the node sees it (`broker.requests.parts.Broker`)."""

    leadership: Leadership
    topics: Topics
    logs: LogManager
    standing: Standing | None


B = TypeVar("B", bound=NodeBroker)


@dataclass(frozen=True, slots=True)
class Succession:
    """The parts of a node that a broker gets when it begins to lead."""

    tables: Any
    terms: LeaseTerms
    held: HeldLease
    nodes: Nodes
    standing: Standing


class Process(Protocol[B]):
    def terms(self) -> LeaseTerms:
        """Return the terms of the lease for the node's next term."""

    def open_tables(self, system: System) -> Sliced[Any]:
        """Open the connections of a term. Raises StartError."""

    def outage_listener(self) -> OutageListener | None:
        """Return the listener for outages of the tables."""

    def close_tables(self, tables: Any) -> Completion[None]: ...

    def assemble_standby(
        self,
        system: System,
        follower: MetadataFollower,
        nodes: Nodes,
        leader_node_id: int,
        leader_seen: LeaderSeen,
    ) -> Sliced[B]:
        """Assemble a broker that answers from the state of `follower`, while the node `leader_node_id` leads."""

    def assemble_leader(self, system: System, succession: Succession) -> Sliced[B]:
        """Assemble a broker that has recovered all committed records. Raises StartError."""

    def serve(self, broker: B) -> Completion[Sequence[NodeAddress]]:
        """Have this broker serve: listen, or take over the clients of the one before. Completes with the addresses for
        clients; fails with StartError."""

    def announce(self) -> None:
        """Announce to people that the broker serves, with its standing."""

    def stop_serving(self, *, is_handover: bool) -> Completion[None]:
        """Answer the requests that were begun, make their records durable, and give the lease back. In a handover
        another node waits for that."""

    def abandon(self) -> Completion[None]:
        """Close the connections of all clients: nothing more is answered, or made durable."""
