"""Two nodes over one PostgreSQL behind one address: in the middle of a suite the leader is killed, and the other one
takes over.

Owns: the address, and when a take-over is due. Does not own: the nodes (`tests.proofs.nodes`), the server, the suite.
Invariants
- A suite sees one broker whose connections are cut at times: both nodes advertise the address, and it leads to the one
  that leads. During a take-over it accepts connections and holds them until the other node leads. A proxy whose health
  check asks for the leader does the same.
- The connections of a killed leader are reset, not closed: franz-go does not repeat a request on a connection that is
  closed before its first answer, as it takes that for a login that it has not made.
- Requests decide when a take-over is due, not seconds: so many of those that change something. The last of them is in
  flight when the leader is killed.
- A run without a take-over raises, as it has shown nothing.
"""

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from oncelog.client.blocking.loop_thread import LoopThread
from oncelog.protocol.api_keys import ApiKey
from tests.proofs.nodes import Nodes
from tests.proofs.runner import say
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

_LEASE = "oncelog.postgres.lease.ms=60000"
"""Long enough that a leader without a core for a while keeps it. The end of a process is seen by its connection."""
CHANGING = frozenset(
    (
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.SHARE_ACKNOWLEDGE,
    )
)
_READY = "broker.ready"
"""The event of a node that leads and serves."""
_SIZE_BYTES = 4
_CHUNK_BYTES = 65_536


class Address:
    """Forwards connections to the node that `lead_to` has named last; calls `on_due` after each `turn_count` requests
    that change something."""

    def __init__(self, turn_count: int, on_due: Callable[[], None]) -> None:
        self._turn_count, self._on_due = turn_count, on_due
        self._changes = 0
        self._leader = ("", 0)
        self._leads = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, port: int = 0) -> str:
        """Return where it listens; 0 is a port that the system chooses."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", port)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def hold(self) -> None:
        """Let new connections wait until a node leads."""
        self._leads.clear()

    async def lead_to(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._leader = (host, int(port))
        self._leads.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            await self._leads.wait()
            answers, requests = await asyncio.open_connection(*self._leader)
        except OSError:
            _reset(writer)
            return
        pumps = (asyncio.ensure_future(self._ask(reader, requests)), asyncio.ensure_future(_answer(answers, writer)))
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            if self._leads.is_set():
                writer.close()
            else:
                _reset(writer)
            requests.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = await reader.readexactly(_SIZE_BYTES)
            request = await reader.readexactly(int.from_bytes(size))
            writer.write(size + request)
            await writer.drain()
            if int.from_bytes(request[:2]) in CHANGING:
                self._changes += 1
                if self._changes % self._turn_count == 0:
                    self._on_due()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection as the system does for one whose other end is gone."""
    end: socket.socket = writer.get_extra_info("socket")
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


class _TakeOvers:
    """Makes a take-over whenever one is due, in a thread of its own."""

    def __init__(self, nodes: Nodes, turn_count: int) -> None:
        self._nodes = nodes
        self._due = threading.Event()
        self._is_over = False
        self._thread = LoopThread("address")
        self._address = Address(turn_count, self._due.set)
        self.count = 0

    def open(self, port: int) -> str:
        self._thread.start()
        return self._thread.run(self._address.open(port))

    def close(self) -> None:
        self._thread.run(self._address.close())
        self._thread.stop()

    def lead(self) -> None:
        self._thread.run(self._address.lead_to(self._nodes.leader.bootstrap))

    def end(self) -> None:
        self._is_over = True
        self._due.set()

    def run(self) -> None:
        while not self._is_over:
            self._due.wait()
            if not self._is_over:
                self._take_over()
                self._due.clear()

    def _take_over(self) -> None:
        nodes = self._nodes
        nodes.await_standbys()
        self._thread.run(self._address.hold())
        (standby,) = nodes.standbys
        ready_count, began_s = len(standby.events(_READY)), time.monotonic()
        nodes.kill()
        standby.await_event(_READY, ready_count + 1)
        self.lead()
        self.count += 1
        say("take-over", f"{self.count}, after {time.monotonic() - began_s:.1f} s")
        nodes.start()


@contextmanager
def taken_over(
    server: Postgres, directory: Path, settings: Sequence[str], port: int | None, turn_count: int
) -> Iterator[str]:
    """Yields the address of one broker that is two, with a take-over after each `turn_count` requests that change
    something, until the block ends; `port`: where it has to listen. Raises RuntimeError if there was none, ValueError
    if both nodes would listen at one port."""
    if any(each.startswith("listeners=") for each in settings):
        raise ValueError("the settings name the listeners of one broker, and there are two")
    schema = f"take_over_{uuid4().hex}"
    nodes = Nodes(partial(_first_value, server.dsn, schema))
    takeovers = _TakeOvers(nodes, turn_count)
    with ExitStack() as stack:
        address = takeovers.open(port or 0)
        stack.callback(takeovers.close)
        stack.callback(nodes.end)
        both = (_LEASE, f"advertised.listeners=PLAINTEXT://{address}", *settings)
        storage = ("--storage", server.dsn, "--schema", schema)
        for number in (1, 2):
            nodes.brokers.append(Daemon(directory / f"node-{number}", *both, f"node.id={number}", storage=storage))
        takeovers.lead()
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(takeovers.run)
            try:
                yield address
            finally:
                takeovers.end()
        running.result()
        if not takeovers.count:
            raise RuntimeError(f"the suite ended before {turn_count} requests that change something")


def _first_value(dsn: str, schema: str, statement: str) -> Any:
    import psycopg

    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"set search_path = {schema}")
        found = connection.execute(statement).fetchone()
    return None if found is None else found[0]
