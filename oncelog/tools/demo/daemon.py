"""A daemon for a demonstration: its own process and directory, killed and restarted at one address.

Owns: its command, and its address. Does not own: the process (`stage`). Invariant: when the block ends, the process has
ended.
"""

import json
import random
import socket
from contextlib import suppress
from pathlib import Path
from typing import Self

from oncelog.faults import FaultClient, Rule
from oncelog.tools.demo.stage import DemoFailed, Stage

_READY = "oncelog ready "
BELOW_OUTGOING = (20_000, 32_000)
"""Ports below those that systems give to outgoing connections."""


class DemoDaemon:
    """A daemon with `oncelog.admin.listen` open, for `faults`. Raises DemoFailed when it does not start."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = directory / "data"
        self._rules = directory / "rules.json"
        admin = f"127.0.0.1:{free_port()}"
        self.bootstrap = "127.0.0.1:0"
        self.faults = FaultClient(admin)
        command = ["oncelog.broker", "serve", "--log-level", "error", "--data-dir", str(self.data_dir)]
        command += ["--override", f"oncelog.admin.listen={admin}", "--override", f"oncelog.admin.faults={self._rules}"]
        self._stage = Stage("daemon", *command)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def is_running(self) -> bool:
        return self._stage.is_running

    def start(self, *rules: Rule) -> None:
        """Start with these rules active before it completes what the last stop left unfinished."""
        self._rules.write_text(json.dumps([rule.as_json() for rule in rules]))
        self._stage.start("--listen", self.bootstrap)
        line = self._stage.read_line()
        if not line.startswith(_READY):
            self.kill()
            raise DemoFailed("the daemon did not start; its message is above")
        self.bootstrap = line.removeprefix(_READY)

    def wait_killed(self, timeout_s: float) -> None:
        """Wait until a fault has ended it. Raises DemoFailed."""
        self._stage.wait(timeout_s)
        self.kill()

    def kill(self) -> None:
        """Kill the daemon, like kill -9."""
        self._stage.kill()


def free_port() -> int:
    """Return a port that is free now, below those that systems give to outgoing connections, one of which could take it
    before its server starts."""
    while True:
        port = random.SystemRandom().randrange(*BELOW_OUTGOING)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
