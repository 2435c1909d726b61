"""What does the faults: one after the other, each ended after a while, at moments that a seed chooses."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tests.support.kafka.server import Kafka
from tests.support.patience import pause
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

Say = Callable[[str], None]
STANDBY = "standby"
"""The standby's name, and its directory beside the primary's."""
_SOME = 10
"""Number of faults between two reports of progress."""


class Broker(Protocol):
    """A cluster that can be killed."""

    @property
    def bootstrap(self) -> str: ...

    def kill(self) -> None:
        """kill -9."""

    def start(self) -> None:
        """Start it again, on the same port and directory; returns when it answers."""


@contextmanager
def broker_of(kind: str, directory: Path, *settings: str) -> Iterator[Broker]:
    """Ours, which writes to the disk before it answers, or Apache Kafka with its own settings."""
    directory.mkdir()
    running = Kafka(directory) if kind == "kafka" else Daemon(directory / "data", *settings)
    try:
        yield running
    finally:
        running.kill()


def counted(count: int, what: str, say: Say, every: int = _SOME) -> Iterator[int]:
    """The numbers of so many faults."""
    for number in range(count):
        yield number
        if (number + 1) % every == 0 or number + 1 == count:
            say(f"{number + 1} of {count} {what}")


def kill(broker: Broker, *, before_s: float, away_s: float) -> None:
    """Kill it after a while, and start it again after another."""
    pause(before_s)
    broker.kill()
    pause(away_s)
    broker.start()


def crash(server: Postgres, *, before_s: float = 0.0, away_s: float = 0.0) -> None:
    """Stop PostgreSQL `immediate` after a while, and start it again after another."""
    pause(before_s)
    server.stop("immediate")
    pause(away_s)
    server.start()


@contextmanager
def server_of(directory: Path, programs: Path, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    server = Postgres(directory, programs, settings)
    try:
        yield server
    finally:
        server.stop("immediate")


@contextmanager
def followed(server: Postgres, settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """The server has a standby, which this yields; `settings` are those of the standby."""
    standby = server.standby(server.directory.with_name(STANDBY), STANDBY, settings)
    try:
        yield standby
    finally:
        standby.stop("immediate")


def wait_for_standby(server: Postgres, more: Mapping[str, str] | None = None) -> None:
    """Make commits wait until the standby has them."""
    server.configure({"synchronous_standby_names": STANDBY, **(more or {})})
    server.reload()
