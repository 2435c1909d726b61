"""The containers of a running compose project, as an operator handles them, and workers inside.

Owns: the few commands of podman and docker that scenarios need, and the pipe to each worker. Does not own: building,
starting the project (`.ci/compose-test`).
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

from tests.integration.clients import Refused

ENGINE = os.environ.get("ONCELOG_COMPOSE_ENGINE")
"""podman or docker; unset where there are no containers to command."""
PROJECT = os.environ.get("ONCELOG_COMPOSE_PROJECT", "oncelog-test")
BROKER_IMAGE = "localhost/oncelog-broker:local" if ENGINE == "podman" else "oncelog-broker:local"
ROOT = Path(__file__).parents[2]
_TIMEOUT_S = 60
_ATTEMPTS, _PAUSE_S = 240, 0.25
_BROKERS = ("broker", "small-broker", "postgres-broker", "first-broker", "second-broker")
_CLIENTS = ("alice", "bob")
_ADDRESS = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
_INTRODUCE = 'rest=$(grep -v " $2\\$" /etc/hosts); printf "%s\\n%s %s\\n" "$rest" "$1" "$2" >/etc/hosts'


class Container:
    """The container of one service. Raises CalledProcessError where the engine refuses."""

    def __init__(self, service: str, project: str = PROJECT) -> None:
        self.service, self._project = service, project
        self._is_connected = True

    @cached_property
    def id(self) -> str:
        """It stays the same from stop to start."""
        filters = (
            f"label=com.docker.compose.project={self._project}",
            f"label=com.docker.compose.service={self.service}",
        )
        (found,) = _engine("ps", "-aq", *(word for each in filters for word in ("--filter", each))).split()
        return found

    def kill(self) -> None:
        """kill -9; returns when it is dead."""
        _engine("kill", "--signal", "KILL", self.id)
        _engine("wait", self.id)

    def stop(self) -> None:
        """SIGTERM, and time to end cleanly."""
        _engine("stop", "--time", "20", self.id)

    def start(self) -> None:
        _engine("start", self.id)
        introduce_brokers()

    def address(self) -> str:
        return _engine("inspect", "--format", _ADDRESS, self.id).strip()

    def disconnect(self) -> None:
        """Packets are lost both ways, and connections notice nothing."""
        self._set_link("down")

    def connect(self) -> None:
        self._set_link("up")

    def _set_link(self, wanted: str) -> None:
        _engine("exec", "--privileged", "--user", "root", self.id, "python", "-m", "tests.integration.link", wanted)
        self._is_connected = wanted == "up"

    def restore(self) -> None:
        """Running and connected, whatever a scenario has left."""
        if not self._is_connected:
            self.connect()
        if not self.is_running():
            self.start()

    def is_running(self) -> bool:
        return _engine("inspect", "--format", "{{.State.Running}}", self.id).strip() == "true"

    def execute(self, *command: str) -> str:
        """Run a command inside and return what it prints."""
        return _engine("exec", self.id, *command)

    def wait_until_healthy(self) -> None:
        """Wait for the health check to pass; podman runs it by itself only where there is systemd."""

        def is_over() -> bool:
            if not self.is_running():
                raise RuntimeError(f"{self.service} has stopped: {self.log()[-4000:]}")
            return self.is_healthy()

        wait_until(is_over, f"{self.service} did not become healthy")

    def is_healthy(self) -> bool:
        if ENGINE == "podman":
            return subprocess.run(["podman", "healthcheck", "run", self.id], capture_output=True).returncode == 0
        return _engine("inspect", "--format", "{{.State.Health.Status}}", self.id).strip() == "healthy"

    def exit_code(self) -> int:
        """Waits for its end."""
        return int(_engine("wait", self.id))

    def log(self) -> str:
        return _log(self.id)


def broker_logs() -> dict[str, str]:
    """Return the last log lines of each broker's container."""
    filters = ("--filter", f"label=com.docker.compose.project={PROJECT}", "--filter", "name=broker")
    names = _engine("ps", "-a", *filters, "--format", "{{.Names}}").split()
    return {name: _log(name)[-4000:] for name in names}


def introduce_brokers() -> None:
    """Write the addresses of brokers into the containers of clients, which change with each start: podman's name server
    is silent for up to 50 s while containers come and go.
    """
    brokers, clients = (filter(Container.is_running, map(Container, names)) for names in (_BROKERS, _CLIENTS))
    for broker, client in product(brokers, clients):
        command = ("sh", "-c", _INTRODUCE, "sh", broker.address(), broker.service)
        _engine("exec", "--user", "root", client.id, *command)


class Worker:
    """A client in a process of its own, in the container of a service or, without an engine, on this machine.

    `worker.send("topic", 0, "a")` calls the method of the client and waits for its response; `begin_call` and
    `end_call` are its halves. Raises Refused as the client does, and `WorkerEnded` if the process has died.
    """

    def __init__(self, service: str, kind: str, bootstrap: str) -> None:
        self.container = Container(service)
        command = ["python", "-m", "tests.integration.worker", kind, bootstrap]
        if ENGINE is None:
            command[0] = sys.executable
        else:
            command = [ENGINE, "exec", "-i", self.container.id, *command]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=ROOT
        )
        self._response()

    def begin_call(self, method: str, *arguments: Any, **keywords: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([method, arguments, keywords]) + "\n")

    def end_call(self) -> Any:
        response = self._response()
        if "kind" in response:
            raise Refused(response["kind"], response["message"])
        return response["value"]

    def _response(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WorkerEnded(f"the worker in {self.container.service} has ended with {self._process.wait(_TIMEOUT_S)}")
        return json.loads(line)

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **keywords: Any) -> Any:
            self.begin_call(method, *arguments, **keywords)
            return self.end_call()

        return call

    def end(self) -> None:
        """Close the client, or what is left of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(_TIMEOUT_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(_TIMEOUT_S)


class WorkerEnded(Exception):
    """The process of a worker, or its container, is gone."""


def wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    pause = threading.Event()
    for _ in range(_ATTEMPTS):
        if is_so():
            return
        pause.wait(_PAUSE_S)
    raise TimeoutError(otherwise)


def _log(container: str) -> str:
    shown = subprocess.run([str(ENGINE), "logs", container], capture_output=True, text=True, timeout=_TIMEOUT_S)
    return shown.stdout + shown.stderr


def _engine(*command: str) -> str:
    ended = subprocess.run([str(ENGINE), *command], capture_output=True, text=True, timeout=_TIMEOUT_S)
    if ended.returncode != 0:
        raise RuntimeError(f"{ENGINE} {' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    return ended.stdout
