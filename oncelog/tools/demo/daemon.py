"""A daemon for a demonstration: its own process and directory, killed and restarted at one address.

Owns: the process. Invariant: when the block ends, the process has ended.
"""

import json
import random
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from oncelog.faults import FaultClient, Rule

READY = "oncelog ready "
BELOW_OUTGOING = (20_000, 32_000)
"""Ports below those that systems give to outgoing connections."""


class DemoFailed(Exception):
    """Raised if the experiment could not be run; the message says why."""


class DemoDaemon:
    """A daemon with `oncelog.admin.listen` open, for `faults`. Raises DemoFailed when it does not start."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        self._rules = directory / "rules.json"
        self._admin = f"127.0.0.1:{free_port()}"
        self.bootstrap = "127.0.0.1:0"
        self.faults = FaultClient(self._admin)
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "DemoDaemon":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self, *rules: Rule) -> None:
        """Start with these rules active before it completes what the last stop left unfinished."""
        self._rules.write_text(json.dumps([rule.as_json() for rule in rules]))
        command = [
            sys.executable,
            "-P",
            "-m",
            "oncelog.broker",
            "serve",
            "--listen",
            self.bootstrap,
            "--log-level",
            "error",
        ]
        command += ["--data-dir", str(self.data_dir), "--override", f"oncelog.admin.listen={self._admin}"]
        command += ["--override", f"oncelog.admin.faults={self._rules}"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self._process.stdout.readline() if self._process.stdout else ""
        if not line.startswith(READY):
            self.kill()
            raise DemoFailed("the daemon did not start; its message is above")
        self.bootstrap = line.removeprefix(READY).strip()

    def wait_killed(self, timeout_s: float) -> None:
        """Wait until a fault has ended it. Raises subprocess.TimeoutExpired."""
        if self._process is not None:
            self._process.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Kill the daemon, like kill -9."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


def free_port() -> int:
    """Return a port that is free now, below those that systems give to outgoing connections, one of which could take it
    before its server starts."""
    while True:
        port = random.SystemRandom().randrange(*BELOW_OUTGOING)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
