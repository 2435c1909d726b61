"""Listening sockets: one listener per name, each advertised under its own address.

Owns: the listeners, and passing a connection from its acceptor to its `Connection`. Invariants
- After `close`, none of our sockets is open, but those that are kept for the next broker of this process.
- A connection counts against the quotas from its acceptance to its end.
"""

import asyncio
import socket
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oncelog.broker.config.listeners import ANY_V6, SecurityProtocol, plain_address
from oncelog.broker.net.acceptor import Acceptor
from oncelog.broker.net.busy_poll import BusyPoll
from oncelog.broker.net.connection import Connection
from oncelog.broker.net.open_connections import OpenConnections
from oncelog.broker.net.quotas import ConnectionQuotas
from oncelog.broker.net.reachability import FollowWarnings, default_gateways
from oncelog.broker.requests.dispatch import Dispatcher, RunInThread

if TYPE_CHECKING:
    from oncelog.broker.net.door import Door
    from oncelog.broker.requests.parts import Broker

_CLOSE_TIMEOUT_S = 1.0
_LAST_FLUSH_S = 10.0
_KEEPALIVE_IDLE_S = 120
"""The idle time before the first keepalive probe: a peer whose machine disappeared silently is detected after this and
nine probes, also while it waits for us."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener: the name from the config, the address bound, the address advertised to clients."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int
    is_guess: bool = False
    """True if no advertised address was configured: it is this machine's host name."""
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Listeners:
    def __init__(
        self,
        broker: "Broker",
        descriptor_count: int | None = None,
        run_in_thread: RunInThread | None = None,
        busy_poll: BusyPoll | None = None,
        kept: "dict[str, list[socket.socket]] | None" = None,
    ) -> None:
        """`descriptor_count` is how many descriptors connections may hold; None for any number. `run_in_thread` is for
        imports, which run synchronously if it is None. Without `busy_poll` the loop sleeps whenever there is nothing to
        do. `kept` has listening sockets by the name of their listener: they are used, and stay open when the listeners
        end, for those of the broker that this process is next."""
        self._broker = broker
        self._dispatcher = Dispatcher(broker, run_in_thread)
        self._acceptors: list[Acceptor] = []
        self._doors: list[Door] = []
        self._open = OpenConnections(broker, busy_poll)
        self._quotas = ConnectionQuotas(
            lambda: self._broker.config,
            descriptor_count,
            lambda host: 0.0 if self._broker.quotas is None else self._broker.quotas.connect(host),
        )
        self._follow = FollowWarnings(broker.logger, default_gateways)
        self._joining: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self.kept = kept
        self.endpoints: list[Endpoint] = []
        broker.live_config.watch(lambda _type, _name: self._resume())

    async def open(self, endpoint: Endpoint) -> Endpoint:
        """Listen; returns the endpoint with the real ports (port 0 asks for a free one). Raises OSError; ConfigError if
        its TLS or SASL cannot be."""
        door = self._door(endpoint)
        sockets = (self.kept or {}).get(endpoint.name) or await self._bind(endpoint.host, endpoint.port)
        if self.kept is not None:
            self.kept[endpoint.name] = sockets
        port: int = sockets[0].getsockname()[1]
        advertised_port = endpoint.advertised_port or port
        bound = replace(endpoint, port=port, advertised_port=advertised_port)

        def on_accepted(accepted: socket.socket, host: str) -> None:
            self._on_accepted(bound, door, accepted, host)

        self._acceptors.append(Acceptor(self._broker, bound.name, sockets, self._quotas, on_accepted))
        self.endpoints.append(bound)
        return bound

    def change_broker(self, broker: "Broker") -> None:
        """Let another broker of this process answer: clients stay connected, and logged in. What they have asked before
        the one before answers."""
        self._broker = broker
        self._dispatcher.change_broker(broker)
        self._open.change_broker(broker)
        for door in self._doors:
            door.change_broker(broker)
        for acceptor in self._acceptors:
            acceptor.change_broker(broker)
        broker.live_config.watch(lambda _type, _name: self._resume())

    @property
    def connection_count(self) -> int:
        return len(self._open)

    @property
    def request_bytes(self) -> int:
        """The memory of requests that are not served yet."""
        return self._open.requests.used_bytes

    @property
    def answer_bytes(self) -> int:
        """The memory of responses that are not sent yet."""
        return self._open.answers.used_bytes

    async def close(self) -> None:
        """Stop the listeners. Appended batches are still acknowledged, and completed responses sent, to clients that
        read them soon: a producer without idempotence would write them again."""
        await self._stop_accepting()
        for connection in self._open.all():
            connection.finish()
        await self._open.wait_empty(_CLOSE_TIMEOUT_S)
        for connection in self._open.all():
            if self._broker.rounds.is_over or not connection.is_waiting_for_us:
                connection.abort()
        await self._open.wait_empty(_LAST_FLUSH_S)
        await self._abort_connections()

    async def abort(self) -> None:
        """Close every socket at once; nothing more is answered."""
        await self._stop_accepting()
        await self._abort_connections()

    async def _stop_accepting(self) -> None:
        self._is_closing = True
        for acceptor in self._acceptors:
            acceptor.close(keeps_listening=self.kept is not None)
        self._acceptors.clear()
        self._open.stop()
        if self._joining:
            await asyncio.wait(self._joining)

    async def _abort_connections(self) -> None:
        for connection in self._open.all():
            connection.abort()
        await self._open.wait_empty(_CLOSE_TIMEOUT_S)

    def _door(self, endpoint: Endpoint) -> "Door | None":
        if endpoint.protocol is SecurityProtocol.PLAINTEXT:
            return None
        from oncelog.broker.net.door import Door  # a start without it does not pay for it

        door = Door(self._broker, self._dispatcher, endpoint.name, endpoint.protocol)
        self._doors.append(door)
        return door

    async def _bind(self, host: str, port: int) -> list[socket.socket]:
        config = self._broker.config
        found = await asyncio.get_running_loop().getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                try:
                    each = socket.socket(family, socket.SOCK_STREAM)
                except OSError:
                    continue  # the system lacks support for the family
                sockets.append(each)
                if family == socket.AF_INET6:
                    # An empty host has a socket of its own for each family.
                    each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not host or address[0] != ANY_V6)
                each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                for option, key in (
                    (socket.SO_RCVBUF, "socket.receive.buffer.bytes"),
                    (socket.SO_SNDBUF, "socket.send.buffer.bytes"),
                ):
                    if config.get_int(key) >= 0:
                        each.setsockopt(socket.SOL_SOCKET, option, config.get_int(key))
                # All addresses of one listener have the same port, also when the system chose it.
                each.bind(
                    (address[0], sockets[0].getsockname()[1] if not port and len(sockets) > 1 else port, *address[2:])
                )
                each.setblocking(False)
                each.listen(config.get_int("socket.listen.backlog.size"))
        except OSError:
            for each in sockets:
                each.close()
            raise
        if not sockets:
            raise OSError(f"cannot listen on any address of {host}")
        return sockets

    def _on_accepted(self, endpoint: Endpoint, door: "Door | None", accepted: socket.socket, host: str) -> None:
        advertised = (endpoint.advertised_host, endpoint.advertised_port)
        reached = plain_address(accepted.getsockname()[0])
        self._follow.on_connected(
            endpoint.name,
            advertised,
            is_guess=endpoint.is_guess,
            peer=host,
            reached=reached,
        )
        _keep_alive(accepted)
        joining = asyncio.get_running_loop().create_task(self._join(endpoint.name, door, advertised, accepted, host))
        self._joining.add(joining)
        joining.add_done_callback(self._joining.discard)

    async def _join(
        self, listener_name: str, door: "Door | None", advertised: tuple[str, int], accepted: socket.socket, host: str
    ) -> None:
        def on_lost() -> None:
            self._quotas.give_back(listener_name, host)
            self._resume()

        connection = Connection(self._broker, self._dispatcher, listener_name, advertised, self._open, on_lost)
        protocol = connection if door is None else door.enter(connection)
        try:
            await asyncio.get_running_loop().connect_accepted_socket(lambda: protocol, accepted)
        except OSError:
            accepted.close()
            connection.connection_lost(None)

    def _resume(self) -> None:
        if not self._is_closing:
            for acceptor in self._acceptors:
                acceptor.resume()


def _keep_alive(accepted: socket.socket) -> None:
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEPALIVE_IDLE_S)
