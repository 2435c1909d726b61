"""What one of several nodes is given of its process: sockets and PostgreSQL by the daemon, neither in simulation.

Owns: only the interfaces. Does not own: when a node calls what (`node`, `standby`).
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
    """A broker that this process is for a while, as far as the node knows it (`broker.requests.parts.Broker`)."""

    leadership: Leadership
    topics: Topics
    logs: LogManager
    standing: Standing | None


B = TypeVar("B", bound=NodeBroker)


@dataclass(frozen=True, slots=True)
class Succession:
    """What one of several nodes has when it begins to lead."""

    tables: Any
    terms: LeaseTerms
    held: HeldLease
    nodes: Nodes
    standing: Standing


class Process(Protocol[B]):
    def terms(self) -> LeaseTerms:
        """On which it wants the lease in its next term."""

    def open_tables(self, system: System) -> Sliced[Any]:
        """The connections of a term. Raises StartError."""

    def outage_listener(self) -> OutageListener | None:
        """The listener for outages of the tables."""

    def close_tables(self, tables: Any) -> Completion[None]: ...

    def assemble_standby(
        self,
        system: System,
        follower: MetadataFollower,
        nodes: Nodes,
        leader_node_id: int,
        leader_seen: LeaderSeen,
    ) -> Sliced[B]:
        """A broker that answers from what `follower` knows, while that node leads."""

    def assemble_leader(self, system: System, succession: Succession) -> Sliced[B]:
        """A broker that has recovered what the leader before has committed. Raises StartError."""

    def serve(self, broker: B) -> Completion[Sequence[NodeAddress]]:
        """Let this broker answer: listen, or go on with the clients of the one before. Completes with the addresses for
        clients; fails with StartError."""

    def announce(self) -> None:
        """The broker that serves has the standing that it says it has."""

    def stop_serving(self, *, is_handover: bool) -> Completion[None]:
        """Answer what was begun, make it durable, and give the lease back. In a handover another node waits."""

    def abandon(self) -> Completion[None]:
        """Close the connection of each client, if there are any: nothing more is answered, or made durable."""
