"""The part in which nodes are cut off: the leader from PostgreSQL, in one direction or both, from everything, or from
clients; those that stand by; or all. Packets are dropped, so neither side is notified.

Each broker has a network of its own; clients and PostgreSQL are in that of the proof.
"""

import socket
from contextlib import ExitStack, suppress
from typing import NamedTuple

from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.frames import FrameReader
from oncelog.protocol.generated import list_offsets_request, list_offsets_response
from oncelog.protocol.generated.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.protocol.headers import decode_response_header, encode_request_header
from tests.proofs.nemesis import Say, counted
from tests.proofs.postgres.takeovers import await_another, crash_server, nothing
from tests.proofs.postgres.world import World
from tests.support.patience import PATIENCE_S, pause, until
from tests.support.processes.daemon import Daemon

SETTINGS = {"listen_addresses": "*"}
"""Settings of PostgreSQL, so that brokers can reach it from their networks."""
_VERSION = 1
_MAX_ANSWER_BYTES = 1 << 20
_LATEST = -1


class Cut(NamedTuple):
    """The packets to drop in each direction, as nft writes them; PORT is PostgreSQL's, None nothing, "" everything."""

    incoming: str | None
    outgoing: str | None


_REQUESTS = Cut(None, "tcp dport PORT")
_ANSWERS = Cut("tcp sport PORT", None)
_DATABASE = Cut(_ANSWERS.incoming, _REQUESTS.outgoing)
_EVERYTHING = Cut("", "")
KINDS = 8
"""Number of kinds of cuts in `partitions`."""


def partitions(world: World, count: int, say: Say) -> None:
    kinds = (
        lambda: _depose(world, _DATABASE),
        lambda: _hide_from_clients(world),
        lambda: _depose(world, _REQUESTS),
        lambda: _cut_standby(world),
        lambda: _depose(world, _ANSWERS),
        lambda: _cut_all(world),
        lambda: _depose(world, _EVERYTHING),
        lambda: _kill_beside_cut(world),
    )
    for number in counted(count, "cuts", say):
        world.await_progress()
        world.nodes.await_standbys()
        pause(world.random.uniform(0.0, 1.0))
        kinds[number % len(kinds)]()
    world.await_progress()


def _depose(world: World, cut: Cut) -> None:
    """Another takes over once the lease of the leader is over. Meanwhile that one must not answer what only a leader
    can, and stands by once the cut is healed."""
    leader = world.broker
    with ExitStack() as stack:
        stack.callback(_heal, world)
        _cut(world, leader, cut)
        world.random.choice((nothing, nothing, crash_server))(world)
        until(lambda: world.broker is not leader)
        question = None if cut is _EVERYTHING else stack.enter_context(Question(leader, world.clients[0].topic))
        world.await_progress()
        pause(world.random.uniform(0.0, 3.0))
        _heal(world)
        world.nodes.await_standbys()
        if question is not None and question.was_answered:
            raise RuntimeError("a leader has answered a reader after another had taken over")


def _hide_from_clients(world: World) -> None:
    """It remains the leader, and serves them later."""
    leader = world.broker
    port = leader.bootstrap.rpartition(":")[2]
    _for_a_while(world, [leader], Cut(f"tcp dport {port}", f"tcp sport {port}"))


def _cut_standby(world: World) -> None:
    _for_a_while(world, world.nodes.standbys, _DATABASE)


def _kill_beside_cut(world: World) -> None:
    """The leader ends, and one of those that stand by cannot know who follows it."""
    leader = world.broker
    cut = world.random.choice(world.nodes.standbys)
    with ExitStack() as stack:
        stack.callback(_heal, world)
        _cut(world, cut, _DATABASE)
        leader.kill()
        await_another(world, leader)
        pause(world.random.uniform(0.0, 3.0))
    leader.start()


def _cut_all(world: World) -> None:
    """The first that reaches PostgreSQL again may take over."""
    _for_a_while(world, world.brokers, _DATABASE)


def _for_a_while(world: World, brokers: list[Daemon], cut: Cut) -> None:
    with ExitStack() as stack:
        stack.callback(_heal, world)
        for each in brokers:
            _cut(world, each, cut)
        pause(world.random.uniform(1.0, 6.0))


def _cut(world: World, broker: Daemon, cut: Cut) -> None:
    network = world.networks[world.brokers.index(broker)]
    port = str(world.server.port)
    if cut.incoming is not None:
        network.drop_incoming(cut.incoming.replace("PORT", port))
    if cut.outgoing is not None:
        network.drop_outgoing(cut.outgoing.replace("PORT", port))


def _heal(world: World) -> None:
    for each in world.networks:
        each.heal()


class Question:
    """Asks one node where the log of a partition ends, which only the leader knows."""

    def __init__(self, broker: Daemon, topic: str) -> None:
        wanted = ListOffsetsTopic(topic, [ListOffsetsPartition(0, timestamp=_LATEST)])
        body = b"".join(list_offsets_request.encode(ListOffsetsRequest(-1, topics=[wanted]), _VERSION))
        frame = encode_request_header(list_offsets_request.API_KEY, _VERSION, 1, "proof", flexible=False) + body
        host, _, port = broker.bootstrap.rpartition(":")
        self._connection = socket.create_connection((host, int(port)), PATIENCE_S)
        self._connection.sendall(len(frame).to_bytes(4, "big") + frame)

    def __enter__(self) -> "Question":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    @property
    def was_answered(self) -> bool:
        """Whether an answer without an error has arrived by now."""
        self._connection.setblocking(False)
        with suppress(BlockingIOError, ConnectionError):
            for answer in FrameReader(_MAX_ANSWER_BYTES).feed(self._connection.recv(_MAX_ANSWER_BYTES)):
                _, position = decode_response_header(answer, flexible=False)
                response, _ = list_offsets_response.decode(answer, _VERSION, position)
                return response.topics[0].partitions[0].error_code == ErrorCode.NONE
        return False
