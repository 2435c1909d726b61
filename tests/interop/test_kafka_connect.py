"""Kafka Connect, unmodified: a distributed worker with exactly.once.source.support=enabled, and MirrorMaker 2 in it.

The worker's own topics (settings, offsets, status) and what its tasks write are on the daemon that is killed.
"""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.foreign.copying_jobs import (
    EXPECTED,
    PATIENCE_S,
    Program,
    copied_under_kills,
    feed_topic,
    make_topics,
    supervised,
)
from tests.support.foreign.interop import PLACE, QUICK_GROUPS, needs
from tests.support.kafka.server import free_ports
from tests.support.patience import SLOW_TIMEOUT_S
from tests.support.processes.daemon import Daemon

pytestmark = [pytest.mark.interop, pytest.mark.timeout(SLOW_TIMEOUT_S)]

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TEXT = "org.apache.kafka.connect.storage.StringConverter"


def worker(daemon: Daemon, directory: Path) -> tuple[list[str], str]:
    """A worker's command, and the address of its REST interface."""
    needs(libraries := PLACE / "connect")
    (port,) = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    settings = {
        "bootstrap.servers": daemon.bootstrap,
        "listeners": address,
        "group.id": "connect",
        "exactly.once.source.support": "enabled",
        "key.converter": TEXT,
        "value.converter": TEXT,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": "1",
        "status.storage.topic": "connect-status",
        "status.storage.partitions": "1",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    settings |= {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    file = directory / "worker.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = ["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return ["java", *options, "-cp", f"{libraries}/*", MAIN, str(file)], address


def call(program: Program, address: str, path: str, config: dict[str, str] | None = None) -> object:
    """Send a request to the worker, and wait until it is up; return its answer."""
    body = None if config is None else json.dumps(config).encode()
    deadline = time.monotonic() + PATIENCE_S
    request = urllib.request.Request(
        address + path, data=body, method="GET" if body is None else "PUT", headers={"Content-Type": "application/json"}
    )
    while True:
        program.keep_running()
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError) as error:
            # Until it is up it refuses connections, and then answers 404 to 503.
            assert time.monotonic() < deadline, f"{error}\n{program.log.read_text()[-4000:]}"


def test_mirror_maker_writes_each_record_exactly_once_while_the_broker_is_killed(
    start_daemon: Start, tmp_path: Path
) -> None:
    origin, daemon = start_daemon(name="origin"), start_daemon(*QUICK_GROUPS)
    command, address = worker(daemon, tmp_path)
    make_topics(origin, "orders")
    make_topics(daemon, "origin.orders")
    with supervised(command, tmp_path / "log") as running:
        connector = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "source.cluster.alias": "origin",
            "target.cluster.alias": "target",
            "source.cluster.bootstrap.servers": origin.bootstrap,
            "target.cluster.bootstrap.servers": daemon.bootstrap,
            "topics": "orders",
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "key.converter": BYTES,
            "value.converter": BYTES,
            "consumer.isolation.level": "read_committed",
            "exactly.once.support": "required",
        }
        call(running, address, "/connectors/mirror/config", connector)
        assert copied_under_kills(daemon, running, feed_topic(origin, "orders"), "origin.orders") == EXPECTED
