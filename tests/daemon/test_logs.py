"""The log of a real daemon: its loggers, and a storm of faults."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.protocol.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.sync import Producer
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

BROKER_LOGGER = 8
SET, DELETE = 0, 1
STORM = 60


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(tmp_path / "data")
    yield running
    running.stop()


def lines(broker: Daemon, event: str) -> list[dict[str, Any]]:
    return [line for line in broker.events() if line["event"].startswith(event)]


def alter(broker: Daemon, logger: str, operation: int, level: str | None) -> None:
    wire = WireBroker(broker.bootstrap)
    change = AlterableConfig(name=logger, config_operation=operation, value=level)
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name="1", configs=[change])
    assert wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0].error_code == 0
    wire.close()


def one_transaction(broker: Daemon) -> None:
    with Producer(broker.bootstrap, transactional_id="billing", client_id="till") as producer:
        with producer.transaction() as transaction:
            transaction.send("orders", b"1", partition=0)


def test_requests_and_transitions_are_logged_by_loggers_of_their_own_and_summed_up_at_info(broker: Daemon) -> None:
    one_transaction(broker)
    assert not lines(broker, "request") and not lines(broker, "transaction.")
    alter(broker, "kafka.request.logger", SET, "DEBUG")
    one_transaction(broker)
    assert not lines(broker, "transaction.")
    (produced,) = [line for line in lines(broker, "request") if line["api"] == "PRODUCE"]
    assert produced["client_id"] == "till" and produced["request_bytes"] > 61 and produced["duration_ms"] > 0
    before = len(lines(broker, "request"))
    alter(broker, "kafka.request.logger", DELETE, None)
    alter(broker, "org.apache.kafka.coordinator.transaction", SET, "DEBUG")
    one_transaction(broker)
    # What connects and asks before the level is deleted.
    assert len(lines(broker, "request")) <= before + 1
    assert {line["event"] for line in lines(broker, "transaction.")} >= {
        "transaction.ongoing",
        "transaction.prepare_commit",
        "transaction.complete_commit",
    }
    broker.stop()
    (summary,) = lines(broker, "transactions.summary")
    assert (summary["started"], summary["committed"], summary["aborted"], summary["fenced"]) == (3, 3, 0, 0)


def test_a_storm_of_bad_clients_writes_a_line_a_second_and_each_of_them_is_counted(broker: Daemon) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    started_s = time.monotonic()
    for _ in range(STORM):
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
            client.sendall(b"\x00\x00\x00\x08" + b"\xff" * 8)
            assert client.recv(1) == b""
    broker.stop()
    closed = lines(broker, "connection.closed")
    written = [line for line in closed if "peer" in line]
    assert len(written) + sum(line.get("left_out", 0) for line in closed) == STORM
    assert len(written) <= 2 + time.monotonic() - started_s
