"""The connections of a client, by node and purpose, each opened when it is first needed.

Owns: opening a connection once for all who wait for it, the addresses to try, why one could not be reached. Does not
own: requests (`cluster`), a connection itself (`transport`), the addresses of nodes (`metadata`). Invariant: a broker
that disappears and returns is found again, through the known nodes first and then the bootstrap addresses. What any
node may answer is asked last of those that are doubted: one that has left a question open, and one that has named
a node that cannot be reached. Both may be cut off from the others, and know nothing, or the leader of before.

Coordinator requests have their own connections, so that a heartbeat never waits behind a long Fetch, and joins have
others again, since a join waits for the whole group.
"""

import asyncio
import logging
from collections.abc import Sequence
from enum import Enum

from oncelog.client.values.errors import (
    AuthenticationFailed,
    ConnectionLost,
    InvalidState,
    KafkaError,
    RequestTimedOut,
)
from oncelog.client.values.option_values import parse_addresses
from oncelog.client.values.waiting import Deadline
from oncelog.client.wire.metadata import Metadata
from oncelog.client.wire.security import Security
from oncelog.client.wire.transport import Transport, connect
from oncelog.protocol.api_keys import ApiKey

_NEXT_S = 1.0
"""How long an address has before the next one is tried beside it."""
_CLOSE_TIMEOUT_S = 1.0
_log = logging.getLogger("oncelog.client")


class Purpose(Enum):
    DATA = "data"
    COORDINATOR = "coordinator"
    JOIN = "join"
    BOOTSTRAP = "bootstrap"
    """Requests that any node can answer, while no other connection is open."""


_ANY = (-1, Purpose.BOOTSTRAP)
"""The key of a connection to whichever node lets itself be connected to."""


class Connections:
    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        metadata: Metadata,
        *,
        client_id: str,
        request_timeout_ms: float,
        security: Security,
    ) -> None:
        self.refused: AuthenticationFailed | None = None
        """The last authentication failure; background tasks cannot raise it."""
        self.was_served = False
        """A listener that speaks as these connections do has responded."""
        self.logs_unreachable = False
        self._bootstrap = parse_addresses(bootstrap_servers)
        self._metadata = metadata
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._security = security
        self._transports: dict[tuple[int, Purpose], Transport] = {}
        self._connecting: dict[tuple[int, Purpose], asyncio.Task[Transport]] = {}
        self.answered_by: dict[ApiKey, str] = {}
        """The address that answered last, by API that any node may answer."""
        self._doubted: list[str] = []
        """Addresses, the newest doubt at the end; there is always another."""
        self._unreachable: set[tuple[str, int]] = set()
        self._failures: dict[tuple[str, int], KafkaError] = {}
        """Why the last connection to an address could not be made; the newest last."""
        self._closed = False

    def live_transport(self, node_id: int, purpose: Purpose = Purpose.DATA) -> Transport | None:
        transport = self._transports.get((node_id, purpose))
        return transport if transport is not None and transport.is_open else None

    async def transport(self, node_id: int, purpose: Purpose, deadline: Deadline) -> Transport:
        """An open connection to that node, opened at most once for all waiters."""
        live = self.live_transport(node_id, purpose)
        if live is not None:
            return live
        if self._closed:
            raise InvalidState("the client is closed")
        key = (node_id, purpose)
        task = self._connecting.get(key)
        if task is None:
            task = asyncio.ensure_future(self._connect(key))
            self._connecting[key] = task
            task.add_done_callback(lambda done: self._on_connected(key, done))
        # Neither a timeout nor a cancelled waiter may end it for the others.
        await asyncio.wait((task,), timeout=deadline.remaining_s)
        if not task.done():
            raise RequestTimedOut(self._not_in_time(node_id))
        if task.cancelled():
            raise InvalidState("the client is closed")
        return task.result()

    def _not_in_time(self, node_id: int) -> str:
        """Why there is no connection: what the attempts before met, if this one is not over yet."""
        nodes = self._metadata.nodes
        addresses = self._addresses() if node_id < 0 else [nodes[node_id]] if node_id in nodes else []
        met = [error.message for address, error in self._failures.items() if address in addresses]
        named = ", ".join(f"{host}:{port}" for host, port in addresses) or f"node {node_id}"
        return met[-1] if met else f"no connection to {named} in time"

    def obstacle(self, node_id: int) -> KafkaError | None:
        """Return the error that keeps requests from the node, if any; of an unknown node, the newest of all nodes."""
        address = self._metadata.nodes.get(node_id)
        return self._failures.get(address) if address else next(reversed(self._failures.values()), None)

    def disconnect(self, purpose: Purpose | None = None) -> None:
        """Close the connections of this purpose, or all; a request that waits there fails with ConnectionLost."""
        for key in [each for each in self._transports if purpose in (each[1], None)]:
            self._transports.pop(key).close()

    def _on_silent(self, silent: Transport) -> None:
        """A host between may have forgotten all connections to that address. One that waits for nothing, and was not
        heard of since, would show it only by a timeout of its own, one connection after the other."""
        self._doubt(silent.address)
        for each in self._transports.values():
            if (
                each is not silent
                and each.address == silent.address
                and each.last_sign_s <= silent.last_sign_s
                and not each.connection.pending
            ):
                each.close()

    async def any_transport(self, deadline: Deadline) -> Transport:
        """Any open connection, else to a known node, else to a bootstrap address; raises the last error if all fail."""
        found = next((each for each in self._transports.values() if self._is_trusted(each)), None)
        if found is None:
            if (doubted := self._transports.pop(_ANY, None)) is not None:
                doubted.close()
            found = await self.transport(*_ANY, deadline)
            if found.address in self._doubted:
                self._doubted.remove(found.address)  # no other can be reached
        return found

    def _is_trusted(self, transport: Transport) -> bool:
        return transport.is_open and transport.address not in self._doubted

    def _doubt(self, address: str) -> None:
        self._doubted = [*(each for each in self._doubted if each != address), address]
        if len(self._doubted) >= len(self._addresses()):
            del self._doubted[0]

    async def _connect(self, key: tuple[int, Purpose]) -> Transport:
        try:
            self._transports[key] = transport = await (self._open_any() if key == _ANY else self._open_node(key[0]))
        except (ConnectionLost, RequestTimedOut):
            namer = ApiKey.METADATA if key[1] is Purpose.DATA else ApiKey.FIND_COORDINATOR
            if key != _ANY and namer in self.answered_by:
                self._doubt(self.answered_by[namer])
            raise
        return transport

    async def _open_any(self) -> Transport:
        """Open a connection to the first address that answers. One that is silent takes no time from the others: the
        next is tried beside it, all within the time that a request may take. Where one is silent, that is raised, and
        not that others refuse: something may be there."""
        addresses = self._addresses()
        next_s = min(_NEXT_S, self._request_timeout_ms / 1000 / max(1, len(addresses)))
        failure: KafkaError = ConnectionLost("no broker is known")
        tasks: list[asyncio.Task[Transport]] = []
        opening: set[asyncio.Task[Transport]] = set()
        opened: Transport | None = None
        try:
            while opened is None and (addresses or opening):
                if addresses:
                    tasks.append(asyncio.ensure_future(self._open(*addresses.pop(0))))
                    opening.add(tasks[-1])
                done, opening = await asyncio.wait(
                    opening, timeout=next_s if addresses else None, return_when=asyncio.FIRST_COMPLETED
                )
                for each in done:
                    try:
                        opened = opened or each.result()
                    except (ConnectionLost, RequestTimedOut) as error:
                        failure = failure if isinstance(failure, RequestTimedOut) else error
        finally:
            await _end(tasks, opened)
        if opened is None:
            raise failure
        return opened

    def _addresses(self) -> list[tuple[str, int]]:
        found = dict.fromkeys((*self._metadata.nodes.values(), *self._bootstrap))
        return sorted(found, key=self._doubts)

    def _doubts(self, address: tuple[str, int]) -> int:
        named = f"{address[0]}:{address[1]}"
        return self._doubted.index(named) + 1 if named in self._doubted else 0

    async def _open_node(self, node_id: int) -> Transport:
        address = self._metadata.nodes.get(node_id)
        if address is None:
            text = "the partition has no leader" if node_id < 0 else f"node {node_id} is not in the metadata"
            raise ConnectionLost(text)
        return await self._open(*address)

    async def _open(self, host: str, port: int) -> Transport:
        deadline = Deadline.after(self._request_timeout_ms)
        try:
            transport = await connect(
                host,
                port,
                client_id=self._client_id,
                request_timeout_ms=self._request_timeout_ms,
                security=self._security,
                deadline=deadline,
                on_silent=self._on_silent,
            )
        except (ConnectionLost, RequestTimedOut) as error:
            self._on_unreachable((host, port), error)
            if isinstance(error, ConnectionLost):
                await self.check_listener(f"{host}:{port}", deadline)
            raise
        except AuthenticationFailed as error:
            self.refused = error
            raise
        self._failures.pop((host, port), None)
        if (host, port) in self._unreachable:
            self._unreachable.remove((host, port))
            _log.warning("connected to %s:%s again", host, port)
        self._metadata.on_features(transport.connection.features_epoch, transport.connection.finalized_features)
        return transport

    async def check_listener(self, address: str, deadline: Deadline) -> None:
        """A connection failed: raises ConfigError if that is because the listener speaks otherwise than this client."""
        if not self.was_served:
            from oncelog.client.wire.listeners import check_listener

            await check_listener(address, self._security, deadline)

    def _on_unreachable(self, address: tuple[str, int], error: KafkaError) -> None:
        self._failures.pop(address, None)
        self._failures[address] = error
        # Logged once, until it is reached again; where opening gives up soon, the exception says it instead.
        if self.logs_unreachable and not self._closed and address not in self._unreachable:
            self._unreachable.add(address)
            _log.warning("%s; trying again", error)

    def _on_connected(self, key: tuple[int, Purpose], task: asyncio.Task[Transport]) -> None:
        del self._connecting[key]
        if not task.cancelled():
            # Waiters have seen the error; without one, nothing else would retrieve it.
            task.exception()

    async def close(self) -> None:
        self._closed = True
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        transports = list(self._transports.values())
        for transport in transports:
            transport.close()
        await asyncio.gather(*(transport.wait_closed(_CLOSE_TIMEOUT_S) for transport in transports))


async def _end(attempts: Sequence["asyncio.Task[Transport]"], kept: Transport | None) -> None:
    """End these attempts and close what they opened, but for what is kept: that only if this is cancelled."""
    for each in attempts:
        each.cancel()
    try:
        await asyncio.gather(*attempts, return_exceptions=True)
    except asyncio.CancelledError:
        kept = None
        raise
    finally:
        for each in attempts:
            if each.done() and not each.cancelled() and each.exception() is None and each.result() is not kept:
                each.result().close()
