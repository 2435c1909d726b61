"""The nodes of the cluster, and where each of their listeners can be reached.

Owns: the addresses, as clients are told. Does not own: how this node learns of others (`broker.succession`), who leads
(`broker.cluster.leadership`).

Clients know the nodes from Metadata, and ask for it again when they have to. A node that has ended is named there for
some minutes: a client that had forgotten it would not know that it is back, and could ask nobody once its leader ends.

A client is told the addresses of the listener that it has connected to, as in Kafka: a node without a listener of that
name does not exist for it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Address = tuple[str, int]


class Client(Protocol):
    """Who asks, as it has connected."""

    @property
    def listener_name(self) -> str: ...

    @property
    def advertised(self) -> Address:
        """Of this node, for clients of that listener."""


class OtherNode(NamedTuple):
    node_id: int
    addresses: Mapping[str, Address]
    """By the name of the listener."""
    is_gone: bool = False
    """It has ended a while ago, and may come back."""


class NodeAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    is_gone: bool = False


class Nodes:
    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self.others: Sequence[OtherNode] = ()

    def seen_by(self, client: Client) -> list[NodeAddress]:
        """In the order of their ids."""
        name = client.listener_name
        found = [NodeAddress(self._node_id, *client.advertised)]
        found += [
            NodeAddress(each.node_id, *each.addresses[name], each.is_gone)
            for each in self.others
            if name in each.addresses
        ]
        found.sort()
        return found

    def address(self, node_id: int, client: Client) -> Address | None:
        """None if the node is not known, or not to clients of this listener."""
        if node_id == self._node_id:
            return client.advertised
        return next((each.addresses.get(client.listener_name) for each in self.others if each.node_id == node_id), None)
