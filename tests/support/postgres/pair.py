"""Two nodes of a cluster over one PostgreSQL, each a process.

Owns: their settings, and what the tables say of them. Does not own: the server (`postgres`), the processes (`daemon`).
"""

import asyncio
import os
from itertools import count
from typing import Any

import pytest

from tests.conftest import Start
from tests.support.patience import until
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

asyncpg = pytest.importorskip("asyncpg", reason="asyncpg is not installed")
LEASE_MS = 60_000
"""The lease is long enough that a leader without a core for a while keeps it. The end of a process is seen by its
connection."""

_schemas = count()


class Pair:
    """Two nodes; the first leads."""

    def __init__(self, postgres: Postgres, start_daemon: Start, *overrides: str, lease_ms: int = LEASE_MS) -> None:
        self._postgres = postgres
        self._start = start_daemon
        self._schema = f"standby_{os.getpid()}_{next(_schemas)}"
        self._overrides = (f"oncelog.postgres.lease.ms={lease_ms}", *overrides)
        self.nodes = {number: self._node(number) for number in (1, 2)}

    def _node(self, number: int) -> Daemon:
        return self._start(
            "oncelog.storage=postgres",
            f"oncelog.postgres.dsn={self._postgres.dsn}",
            f"oncelog.postgres.schema={self._schema}",
            f"node.id={number}",
            *self._overrides,
            name=f"node-{number}",
        )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes.values())

    def sql(self, statement: str) -> Any:
        async def run() -> Any:
            connection = await asyncpg.connect(self._postgres.dsn)
            try:
                await connection.execute(f"set search_path = {self._schema}")
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        return asyncio.run(run())

    @property
    def leader(self) -> int:
        """The number of the node that leads, by the tables."""
        found: int = self.sql("select node_id from oncelog_lease")
        return found

    def move_to(self, number: int) -> None:
        """Let this node lead, once it stands by; returns when it does."""
        until(lambda: bool(self.sql(f"select followed >= 0 from oncelog_node where node_id = {number}")))
        self.sql(f"update oncelog_lease set wanted = {number}")
        until(lambda: self.leader == number)

    def events(self, number: int, event: str) -> list[dict[str, Any]]:
        return self.nodes[number].events(event)
