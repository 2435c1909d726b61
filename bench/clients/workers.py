"""The processes of the clients, as the rounds see them, and the table of them.

Owns: starting one with its interpreter, and the conversation with it. Does not own: what it runs (`worker`).
"""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.harness.interpreters import COMPILED_PYTHON, prepare_compiled

COMPILED, INTERPRETED, AIOKAFKA = "compiled", "oncelog", "aiokafka"


@dataclass(frozen=True, slots=True)
class Client:
    key: str
    name: str
    driver: str
    """In the table of `drivers`."""
    python: str
    prepare: Callable[[], str]
    """Returns its version. Raises interop.Unavailable."""


def _installed(package: str) -> Callable[[], str]:
    return lambda: version(package)


CLIENTS = (
    Client(INTERPRETED, "oncelog", "oncelog", sys.executable, _installed("oncelog")),
    Client(COMPILED, "oncelog, compiled", "oncelog", COMPILED_PYTHON, prepare_compiled),
    Client(AIOKAFKA, "aiokafka", "aiokafka", sys.executable, _installed("aiokafka")),
    Client("kafka-python", "kafka-python", "kafka-python", sys.executable, _installed("kafka-python")),
    Client("confluent", "confluent-kafka", "confluent-kafka", sys.executable, _installed("confluent-kafka")),
)


class Failed(Exception):
    """The client's own words."""


class Worker:
    """A running client, from the constructor to `stop`. `place` is of `interpreters.make_place`: the
    client that is installed is the one that runs."""

    def __init__(self, client: Client, bootstrap: str, place: Path) -> None:
        self.client = client
        self._process = subprocess.Popen(
            [client.python, "-m", "bench.clients.worker", client.driver, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=place,
        )
        self._read()

    def ask(self, **what: object) -> dict[str, Any]:
        """Raises Failed."""
        if self._process.stdin is None:
            raise Failed("it has no input")
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise Failed(f"{self.client.name} ended with code {self._process.wait()}")
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            raise Failed(found["error"])
        return found

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(30)
