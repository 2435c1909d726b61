"""The network between simulated clients and several nodes, of which one leads, as far as the clients know.

Owns: whom a client asks. It asks any node for Metadata, goes to the leader that this names, and asks again after an
error that says another leads, or after silence. Questions that any node may answer go to any. Some clients stay with a
silent leader for as long as Metadata lists it, as franz-go's members of groups do (KIP-848).
Invariants
- I28: no answer to a read, and no refusal, leaves a node once another has the lease.
- I34: no node names itself as the leader once another has the lease.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import Any
from zlib import crc32

from oncelog.protocol.api_keys import ApiKey
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.metadata_request import MetadataRequest
from oncelog.protocol.message import Message
from tests.fakes.broker import VirtualBroker
from tests.fakes.node import Arrival, VirtualNode
from tests.history.auditor import HistoryError
from tests.simulation.broker_network import Client, Network

_ELSEWHERE = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_CONTROLLER})
_OF_ONE_THAT_ENDS = _ELSEWHERE | {ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.COORDINATOR_NOT_AVAILABLE}
_OF_ANY_NODE = frozenset({"FindCoordinatorRequest", "MetadataRequest"})
_NOBODY = -1
_METADATA_VERSION = 9
_READS = frozenset(
    {
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.HEARTBEAT,
    }
)


@dataclass
class PairLosses:
    redirected: int = 0
    answers_of_standbys: int = 0
    left_unlisted: int = 0
    """How often a client has left a silent leader because Metadata did not list it any more."""


class PairNetwork(Network):
    def __init__(
        self,
        random: Random,
        later: Callable[[int, Callable[[], None]], None],
        nodes: Sequence[VirtualNode],
        newest_epoch: Callable[[], int],
        judges: tuple[Callable[[Arrival, int], None], Callable[[Arrival, int, Sequence[int]], None]],
        *,
        may_be_late: bool,
    ) -> None:
        """`judges`: of which leader an answer names, and of which nodes it lists beside it."""
        super().__init__(random, later, _no_broker, may_be_late=may_be_late)
        self._on_named, self._on_listed = judges
        self._nodes = nodes
        self._newest_epoch = newest_epoch
        self._leaders: dict[Client, int] = {}
        """Whom a client takes for the leader."""
        self._asked: list[tuple[Arrival, Callable[[Any], None]]] = []
        self._sent: list[tuple[Client, int, Any, Arrival]] = []
        self.counts = PairLosses()

    def _send(self, client: Client, ticket: int, request: Any, version: int) -> None:
        if client in self._leaders or _is_of_any_node(request):
            super()._send(client, ticket, request, version)
            return

        def on_answer(answer: Any) -> None:
            if client.ticket == ticket and answer.controller_id != _NOBODY:
                self._leaders[client] = answer.controller_id
                super(PairNetwork, self)._send(client, ticket, request, version)

        self._later(self._latency_ms(), lambda: self._ask_metadata(on_answer))

    def _ask_metadata(self, on_answer: Callable[[Any], None]) -> None:
        request = MetadataRequest(topics=[])
        frame = VirtualBroker.frame(request, _METADATA_VERSION)
        node = self._random.choice(self._nodes)
        self._asked.append((node.take(frame, request, _METADATA_VERSION), on_answer))

    def _take(
        self, client: Client, ticket: int, frame: memoryview, request: Any, version: int, is_double: bool
    ) -> None:
        if _is_of_any_node(request):
            node = self._random.choice(self._nodes)
        else:
            node_id = self._leaders.get(client, _NOBODY)
            node = next((each for each in self._nodes if each.node_id == node_id), self._nodes[0])
        arrival = node.take(frame, request, version, lambda: self._may_be_late or client.ticket == ticket)
        self._sent.append((client, _NOBODY if is_double else ticket, request, arrival))

    def collect(self) -> None:
        self._collect_metadata()
        sent, self._sent = self._sent, []
        for client, ticket, request, arrival in sent:
            if not arrival.is_there:
                if not arrival.is_lost:
                    self._sent.append((client, ticket, request, arrival))
                continue
            self._judge(request, arrival)
            assert arrival.reply is not None
            if arrival.reply.is_closed or ticket == _NOBODY:
                continue
            if self._strikes(0.02):
                self.losses.lost_answers += 1
                continue
            if not self._is_answer(request, arrival):
                continue
            ready = client, ticket, arrival.reply, self._cuts
            self._later(self._latency_ms(), lambda ready=ready: self._deliver(*ready))  # type: ignore[misc]

    def _collect_metadata(self) -> None:
        asked, self._asked = self._asked, []
        for arrival, on_answer in asked:
            if arrival.is_there:
                assert arrival.reply is not None
                if not arrival.reply.is_closed:
                    self._judge_named(arrival, _named_in(arrival.reply.message))
                    self._judge_listed(arrival, arrival.reply.message)
                    on_answer(arrival.reply.message)
            elif not arrival.is_lost:
                self._asked.append((arrival, on_answer))

    def _is_answer(self, request: Any, arrival: Arrival) -> bool:
        """Whether the client takes it as the answer: a standby's view may be a moment old, so a client that needs its
        own writes asks another node.
        """
        assert arrival.serving is not None and arrival.reply is not None
        if arrival.serving.epoch >= 0 or _is_of_any_node(request) or type(request).__name__ == "InitProducerIdRequest":
            return True
        self.counts.answers_of_standbys += 1
        return not _ELSEWHERE.isdisjoint(_codes(arrival.reply.message))

    def _judge(self, request: Any, arrival: Arrival) -> None:
        serving, reply = arrival.serving, arrival.reply
        assert serving is not None and reply is not None
        if reply.is_closed:
            return
        if type(request).__name__ in _OF_ANY_NODE:
            self._judge_named(arrival, _named_in(reply.message))
        if isinstance(request, MetadataRequest):
            self._judge_listed(arrival, reply.message)
        if serving.epoch < 0:
            return
        codes = set() if _is_of_any_node(request) else set(map(ErrorCode, _codes(reply.message))) - _OF_ONE_THAT_ENDS
        if _api_of(request) not in _READS and not codes:
            return  # what it has changed is durable, by whatever way the answer takes
        newest = self._newest_epoch()
        if newest > serving.epoch:
            raise HistoryError(
                f"I28, no read is answered by a node later than its lease: node {serving.node_id} answers "
                f"{type(request).__name__} with {codes} in epoch {serving.epoch}, and {newest} has begun"
            )

    def _judge_named(self, arrival: Arrival, node_id: int) -> None:
        serving = arrival.serving
        assert serving is not None
        self._on_named(arrival, node_id)
        if 0 <= serving.epoch < self._newest_epoch() and node_id == serving.node_id:
            raise HistoryError(
                f"I34, no node names itself as the leader once another has the lease: node {node_id} does in epoch "
                f"{serving.epoch}, and {self._newest_epoch()} has begun"
            )

    def _judge_listed(self, arrival: Arrival, message: Any) -> None:
        self._on_listed(arrival, int(message.controller_id), [each.node_id for each in message.brokers])

    def _deliver(self, client: Client, ticket: int, reply: Any, cuts: int) -> None:
        if client.ticket == ticket and not _ELSEWHERE.isdisjoint(_codes(reply.message)):
            self.counts.redirected += 1
            self._leaders.pop(client, None)
        super()._deliver(client, ticket, reply, cuts)

    def _give_up(self, client: Client, ticket: int) -> None:
        if client.ticket == ticket:
            leader = self._leaders.get(client)
            if leader is not None and _stays(client):
                self._ask_metadata(lambda answer: self._maybe_leave(client, leader, answer))
            else:
                self._leaders.pop(client, None)
        super()._give_up(client, ticket)

    def _maybe_leave(self, client: Client, leader: int, answer: Any) -> None:
        if leader not in [each.node_id for each in answer.brokers] and self._leaders.get(client) == leader:
            del self._leaders[client]
            self.counts.left_unlisted += 1


def _no_broker() -> VirtualBroker:
    raise AssertionError("several nodes are asked")


def _stays(client: Client) -> bool:
    """Whether it leaves a silent leader only once Metadata does not list it."""
    return crc32(client.name.encode()) % 2 == 0


def _is_of_any_node(request: Any) -> bool:
    return type(request).__name__ in _OF_ANY_NODE or (
        type(request).__name__ == "InitProducerIdRequest" and request.transactional_id is None
    )


def _named_in(message: Any) -> int:
    """The leader, by an answer to Metadata or FindCoordinator."""
    if hasattr(message, "controller_id"):
        return int(message.controller_id)
    return int(message.coordinators[0].node_id if message.coordinators else message.node_id)


def _api_of(request: Any) -> int:
    return int(import_module(type(request).__module__).API_KEY)


def _codes(message: Message) -> Iterator[int]:
    """Every error code in a response."""
    for name in message.FIELDS:
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for entry in value:
                if isinstance(entry, Message):
                    yield from _codes(entry)
