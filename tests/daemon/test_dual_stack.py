"""Ports on `[::]` answer both families, as Kafka's do, and know an IPv4 client by its IPv4 address."""

import json
import re
import socket
import subprocess
import sys
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.health import check_health
from oncelog.testing import Broker
from tests.conftest import Start
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import LOOKS_AT_FILES

pytestmark = pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
BOTH = ("127.0.0.1", "::1")


@LOOKS_AT_FILES
def test_a_listener_and_an_http_port_on_every_address_answer_ipv4_and_ipv6(start_daemon: Start) -> None:
    daemon = start_daemon(
        "listeners=PLAINTEXT://[::]:0",
        "advertised.listeners=PLAINTEXT://localhost:0",
        "oncelog.metrics.listen=[::]:0",
        "max.connections.per.ip.overrides=127.0.0.1:0",
    )
    assert re.fullmatch(r"\[::\]:\d+", daemon.bootstrap)
    port = int(daemon.bootstrap.rpartition(":")[2])
    check_health("::1", port, PATIENCE_S)
    metrics = daemon.address_of("metrics").rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        assert urlopen(f"http://{host}:{metrics}/healthz", timeout=PATIENCE_S).status == 200
    # The limit names an IPv4 address: it holds for that client on a socket of both families.
    assert CliRunner().invoke(main, ["health", "-b", f"127.0.0.1:{port}", "--timeout", "3"]).exit_code == 1
    assert daemon.await_event("connection.refused")["peer"] == "127.0.0.1"


@LOOKS_AT_FILES
@pytest.mark.parametrize("host", ["[::]", ""])
def test_a_listener_on_every_address_serves_ipv4_and_ipv6(start_daemon: Start, host: str) -> None:
    daemon = start_daemon(f"listeners=PLAINTEXT://{host}:0", "advertised.listeners=PLAINTEXT://localhost:0")
    for each in BOTH:
        check_health(each, int(daemon.bootstrap.rpartition(":")[2]), PATIENCE_S)


@LOOKS_AT_FILES
def test_a_scoped_address_is_advertised_as_it_is(start_daemon: Start) -> None:
    """The zone stays in the advertised host, as in Kafka 4.3."""
    daemon = start_daemon("listeners=PLAINTEXT://127.0.0.1:0", "advertised.listeners=PLAINTEXT://[fe80::1%eth0]:9092")
    shown = CliRunner().invoke(main, ["cluster", "describe", "-b", daemon.bootstrap, "--json"])
    (node,) = json.loads(shown.stdout)["nodes"]
    assert (node["host"], node["port"]) == ("fe80::1%eth0", 9092)


def test_the_console_on_every_address_answers_ipv4_and_ipv6() -> None:
    with Broker() as broker:
        command = [sys.executable, "-P", "-m", "oncelog", "console", "--listen", "[::]:0"]
        process = subprocess.Popen([*command, "-b", broker.bootstrap_servers], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        found = re.search(r":(\d+);", process.stdout.readline())
        assert found is not None
        for host in ("127.0.0.1", "[::1]"):
            assert urlopen(f"http://{host}:{found[1]}/topics", timeout=PATIENCE_S).status == 200
        process.terminate()
        process.wait(PATIENCE_S)
        process.stdout.close()
