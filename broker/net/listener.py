"""Listening sockets: one per configured listener, each advertised under its own address.

Owns: the asyncio servers and the set of open connections. Invariant: after `close`, no socket of ours is open.
"""

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from broker.dispatch import Dispatcher
from broker.net.connection import Connection

if TYPE_CHECKING:
    from broker.broker import Broker


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener: the name from the config, the address bound, the address that clients are told."""

    name: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int


class Listeners:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._dispatcher = Dispatcher(broker)
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        self.endpoints: list[Endpoint] = []

    async def open(self, endpoint: Endpoint) -> Endpoint:
        """Listen; returns the endpoint with the real ports (port 0 asks for a free one). Raises OSError."""
        loop = asyncio.get_running_loop()
        advertised = (endpoint.advertised_host, endpoint.advertised_port)

        def connect() -> Connection:
            return Connection(self._broker, self._dispatcher, bound.name, advertised, self._connections)

        bound = endpoint
        server = await loop.create_server(connect, endpoint.host or None, endpoint.port, backlog=1024)
        port: int = server.sockets[0].getsockname()[1]
        advertised = (endpoint.advertised_host, endpoint.advertised_port or port)
        bound = Endpoint(endpoint.name, endpoint.host, port, *advertised)
        self._servers.append(server)
        self.endpoints.append(bound)
        return bound

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for connection in list(self._connections):
            connection.close()
        for server in self._servers:
            await server.wait_closed()
