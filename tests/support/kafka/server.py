"""Apache Kafka itself as a process, for tests that ask whether ours behaves alike: one node, everything on loopback."""

import os
import random
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from oncelog.health import NotHealthy, check_health
from oncelog.tools.demo.daemon import BELOW_OUTGOING
from tests.support.patience import PATIENCE_S, until
from tests.support.processes.daemon import Daemon

_SETTINGS = """
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
{quorum}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
group.initial.rebalance.delay.ms=0
"""

ON_BOTH = ("oncelog", pytest.param("kafka", marks=pytest.mark.kafka))
"""The kinds of broker of a fixture whose tests hold on both."""


class Kafka:
    """Started in the constructor; `stop` ends it, `start` starts it again."""

    def __init__(
        self,
        directory: Path,
        features: Sequence[str] = (),
        *,
        static_quorum: bool = False,
        overrides: Sequence[str] = (),
        formatted: tuple[Path, int] | None = None,
        ready_at: int | None = None,
    ) -> None:
        """`features` are levels to begin with, such as "share.version=0"; a static quorum is kraft.version 0;
        `overrides` are more lines of settings. `formatted`: settings and port of one whose directory is ready.
        `ready_at`: the port to ask, if `overrides` have other listeners."""
        run = java_with_kafka()
        if formatted is None:
            settings, port = write_settings(directory, static_quorum=static_quorum, overrides=overrides)
            format_storage(run, settings, features, static_quorum=static_quorum)
        else:
            settings, port = formatted
        port = ready_at or port
        self.bootstrap = f"127.0.0.1:{port}"
        self._directory, self._port = directory, port
        self._command = [*run, "kafka.Kafka", str(settings)]
        self.start()

    def start(self) -> None:
        """Returns when it answers; after a `stop`, on the same port and directory."""
        with (self._directory / "kafka.out").open("a") as out:
            self._process = subprocess.Popen(self._command, cwd=self._directory, stdout=out, stderr=subprocess.STDOUT)
        try:
            self._wait("127.0.0.1", self._port)
        except NotHealthy:
            self.stop()
            raise

    def _wait(self, host: str, port: int) -> None:
        """Ask until Kafka answers: it does not report that it is ready."""

        def answers() -> bool:
            if self._process.poll() is not None:
                raise NotHealthy(f"Apache Kafka ended with {self._process.returncode} when it was to start")
            with suppress(NotHealthy):
                check_health(host, port, 5.0)
                return True
            return False

        until(answers)

    def read(self, path: str) -> str | None:
        """A file in its data directory; None if there is none."""
        file = self._directory / "data" / path
        return file.read_text() if file.exists() else None

    def names(self, path: str) -> list[str]:
        """The names of the files in a directory of its data."""
        return sorted(file.name for file in (self._directory / "data" / path).iterdir())

    def end(self) -> None:
        """A clean stop."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait(PATIENCE_S)

    stop = kill
    """Tests do not look at what a clean stop leaves, which takes seconds; those that do have `end`."""


@contextmanager
def serving(kind: str, directory: Path, *overrides: str) -> Iterator[str]:
    """The address of a broker of this kind, "kafka" or ours, with these settings and quick groups, for the block."""
    running: Daemon | Kafka
    if kind == "kafka":
        running = Kafka(directory, overrides=overrides)
    else:
        running = Daemon(directory / "data", "group.initial.rebalance.delay.ms=0", *overrides)
    yield running.bootstrap
    running.stop()


def java_with_kafka() -> list[str]:
    """Java with Kafka's jars in its class path; skips the test where they are not."""
    libraries = os.environ.get("ONCELOG_KAFKA_LIBS")
    java = shutil.which("java")
    if libraries is None or java is None:
        pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    return [java, "-Xmx512m", "-cp", f"{libraries}/*"]


def write_settings(directory: Path, *, static_quorum: bool = False, overrides: Sequence[str] = ()) -> tuple[Path, int]:
    """Writes the settings of one node that keeps its data below `directory`. Returns the file and the node's port."""
    port, controller_port = free_ports(2)
    quorum = f"controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}"
    if static_quorum:
        quorum = f"controller.quorum.voters=1@127.0.0.1:{controller_port}"
    written = _SETTINGS.format(port=port, controller_port=controller_port, directory=directory, quorum=quorum)
    settings = directory / "server.properties"
    settings.write_text("\n".join((written, *overrides)))
    return settings, port


def format_storage(
    run: Sequence[str],
    settings: Path,
    features: Sequence[str] = (),
    *,
    static_quorum: bool = False,
    cluster_id: str | None = None,
) -> None:
    """Formats the node's directory, as Kafka wants before its first start; `run` is Java with its class path."""
    cluster_id = cluster_id or uuid.uuid4().hex[:22]
    command = [*run, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(settings)]
    if not static_quorum:
        command.append("--standalone")
    for feature in features:
        command += ["--feature", feature]
    subprocess.run(command, check=True, capture_output=True, cwd=settings.parent, timeout=PATIENCE_S)


def free_ports(count: int) -> list[int]:
    """Ports that are free now. They lie below those that systems give to outgoing connections: one of another test
    took a port between here and the start of the server that was to have it."""
    with ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.SystemRandom().randrange(*BELOW_OUTGOING)
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                ports.append(port)
    return ports


def free_neighbours(count: int) -> int:
    """The first of so many such ports in a row."""
    while True:
        first = random.SystemRandom().randrange(*BELOW_OUTGOING)
        with ExitStack() as held, suppress(OSError):
            for port in range(first, first + count):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
