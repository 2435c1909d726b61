"""The daemon as a process of its own, for tests: start, kill -9, start again on the same port and directory."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, uuid5

import pytest

from tests.support.patience import PATIENCE_S, until
from tests.support.processes.forked import ForkedProcess
from tests.support.processes.logged import drop_half_a_line, events, whole_lines
from tests.support.processes.networks import Network

READY = "oncelog ready "
Process: TypeAlias = "ForkedProcess | subprocess.Popen[str]"
_ROOT = Path(__file__).parent.parent.parent.parent
TABLES = "ONCELOG_TEST_DSN"
"""A variable: daemons that no test gives a storage keep their records there, each in a schema of its own."""
LOOKS_AT_FILES = pytest.mark.skipif(TABLES in os.environ, reason=f"it looks at a data directory, and {TABLES} is set")


class Daemon:
    """A running `python -m oncelog.broker serve`; `bootstrap` stays the same across restarts."""

    def __init__(
        self,
        data_dir: Path,
        *overrides: str,
        open_files: int | None = None,
        storage: Sequence[str] = (),
        network: Network | None = None,
    ) -> None:
        """`open_files` is the most that the system lets it open; `storage` are arguments in the place of a data
        directory, beside which its standard error is kept all the same; `network` is where it runs and listens."""
        self.data_dir = data_dir
        self._open_files = open_files
        self._overrides = overrides
        self._storage = storage or ("--data-dir", str(data_dir))
        dsn = None if storage else os.environ.get(TABLES)
        if dsn and not any(each.startswith(("oncelog.storage=", "oncelog.flush.policy=")) for each in overrides):
            schema = f"daemon_{uuid5(NAMESPACE_URL, str(data_dir)).hex}"
            tables = ("oncelog.storage=postgres", f"oncelog.postgres.dsn={dsn}", f"oncelog.postgres.schema={schema}")
            self._overrides = (*tables, *overrides)
        self._network = network
        self._listen = "127.0.0.1:0" if network is None else f"{network.inside}:0"
        self.addresses: list[str] = []
        self._process: Process | None = None
        self.stderr_path = data_dir.with_name(data_dir.name + ".stderr")
        self.start()

    @property
    def bootstrap(self) -> str:
        return self._listen

    @property
    def process(self) -> "Process":
        if self._process is None:
            raise RuntimeError("the daemon is not running")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """Its standard error, of all of its lives, up to the last whole line."""
        return "".join(f"{line}\n" for line in whole_lines(self.stderr_path))

    def events(self, *names: str) -> list[dict[str, Any]]:
        """The events of its log with these names, or all."""
        return events(self.stderr_path, *names)

    def await_event(self, name: str, count: int = 1) -> dict[str, Any]:
        """The `count`th event with this name, once it is logged."""
        until(lambda: len(self.events(name)) >= count)
        return self.events(name)[count - 1]

    def address_of(self, port: str) -> str:
        """Where it serves its "metrics" or its "admin" port; a restart has another address."""
        address: str = self.events(f"{port}.ready")[-1]["address"]
        return address

    def start(self) -> None:
        arguments = ["serve", *self._storage]
        if not any(override.startswith("listeners=") for override in self._overrides):
            arguments += ["--listen", self._listen]
        for override in self._overrides:
            arguments += ["--override", override]
        environ = {**os.environ, "PYTHONPATH": str(_ROOT)}
        limit = [] if self._open_files is None else ["sh", "-c", f'ulimit -n {self._open_files}; exec "$@"', "sh"]
        around = [*(self._network.command if self._network else ()), *limit]
        drop_half_a_line(self.stderr_path)
        if not around:
            self._process = ForkedProcess(arguments, self.stderr_path, environ)
        else:
            command = [*around, sys.executable, "-P", "-m", "oncelog.broker", *arguments]
            with self.stderr_path.open("a") as stderr:
                self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environ)
        stdout = self.process.stdout
        line = stdout.readline() if stdout else ""
        if not line.startswith(READY):
            raise RuntimeError(f"the daemon did not start: {line!r}\n{self.log[-4000:]}")
        self.addresses = line[len(READY) :].split()
        self._listen = self.addresses[0]

    def kill(self) -> None:
        """kill -9: nothing is flushed, nothing is said."""
        self.process.kill()
        self.wait()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop; returns its exit code."""
        if self._process is None:
            return 0
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """Returns its exit code, when it ends."""
        process = self.process
        code = process.wait(PATIENCE_S)
        if process.stdout:
            process.stdout.close()
        self._process = None
        return code
