"""The nodes of the cluster, and where each of their listeners can be reached.

Owns: the addresses in answers to clients. Does not own: how this node learns of others (`broker.succession`), which one
leads (`broker.cluster.leadership`).

Clients know the nodes from Metadata, and ask for it again when they have to. As in Kafka, a node that has ended is
listed there until the time of its row is over, and again once it is back; one that was deposed is not listed from the
first answer on that names the next leader. Kafka fences a broker and moves its leaderships and coordinators in one step
(measured: three brokers, kill -9 of one), and clients rely on that: the members of groups of KIP-848 and of share
groups in franz-go 1.22 and its main branch send heartbeats to their coordinator for as long as it is listed, whatever
FindCoordinator answers, and look at Metadata once when a fetch fails; those without a partition never (in Kafka, too).

Some clients need the contrary, for ten minutes (`storage.postgres.nodes`). Of two nodes a client that asks while one is
gone learns one, and asks again after five minutes. If that one ends meanwhile, it has to find the other by its
bootstrap servers. Java since 4.0, librdkafka's default, franz-go, KafkaJS and oncelog do. Java 3.x, kafka-python 3.0,
aiokafka 0.14, and librdkafka with `metadata.recovery.strategy=none`, which its stall needs
(docs/clients/client-notes.md), do not (tried: two kills in turn, and none came back within 40 s). What asks for nodes
alone is an Admin of Java or librdkafka: it asks each of them for its groups and transactions, and waits in vain for one
that has ended. (Java's 4.3 also keeps the leaders of partitions, and waits a minute for one that is not listed, with
Apache Kafka as well: the notes on clients have it.)

A client gets the addresses of the listener that it has connected to, as in Kafka: a node without a listener of that
name does not exist for it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

Address = tuple[str, int]
_UNNAMED = ""
"""The name of clients that send none (KIP-511), such as aiokafka and KafkaJS. None of them has KIP-848."""
_KAFKA_PYTHON = "kafka-python"
_BY_LIBRDKAFKA = ("librdkafka", "confluent-kafka")
"""The prefixes of the names that librdkafka, and Confluent's clients around it, give themselves."""
_JAVA = "apache-kafka-java"


class Client(Protocol):
    """A client, as it has connected."""

    @property
    def listener_name(self) -> str: ...

    @property
    def advertised(self) -> Address:
        """The address of this node, for clients of that listener."""


class OtherNode(NamedTuple):
    node_id: int
    addresses: Mapping[str, Address]
    """The addresses by the name of the listener."""
    is_gone: bool = False
    """Whether it has ended a while ago; it may come back."""


class NodeAddress(NamedTuple):
    node_id: int
    host: str
    port: int
    is_gone: bool = False
    rack: str | None = None


def lists_nodes_that_are_gone(software_name: str, asks_for_nodes_alone: bool) -> bool:
    """Whether Metadata lists nodes that have ended to this client, which could not find them otherwise."""
    if software_name == _JAVA or software_name.startswith(_BY_LIBRDKAFKA):
        return not asks_for_nodes_alone
    return software_name in (_UNNAMED, _KAFKA_PYTHON)


class Nodes:
    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self.others: Sequence[OtherNode] = ()
        self.rack: str | None = None
        """The rack of this node; those of others are not known."""

    def seen_by(self, client: Client) -> list[NodeAddress]:
        """Return the nodes that this client can reach, ordered by id."""
        name = client.listener_name
        found = [NodeAddress(self._node_id, *client.advertised, rack=self.rack)]
        found += [
            NodeAddress(each.node_id, *each.addresses[name], each.is_gone)
            for each in self.others
            if name in each.addresses
        ]
        found.sort()
        return found

    def address(self, node_id: int, client: Client) -> Address | None:
        """Return the address of a node; None if it is unknown, or has no such listener."""
        if node_id == self._node_id:
            return client.advertised
        return next((each.addresses.get(client.listener_name) for each in self.others if each.node_id == node_id), None)
