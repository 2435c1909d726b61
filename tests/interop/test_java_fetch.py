"""The Java consumer keeps its fetch session: it reads what came, and hardly ever asks for everything again."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "JavaFetch.java"


def totals(receiver: socket.socket) -> dict[str, float]:
    """The counters in the datagrams that have come."""
    found: dict[str, float] = {}
    receiver.setblocking(False)
    while True:
        try:
            datagram = receiver.recv(65_536)
        except BlockingIOError:
            return found
        for line in datagram.decode("ascii").split("\n"):
            name, _, rest = line.removeprefix("oncelog.").partition(":")
            value, _, kind = rest.partition("|")
            if kind == "c":
                found[name] = found.get(name, 0) + float(value)


def test_java_reads_by_incremental_fetches_and_continues_with_a_topic_created_again(start_daemon: Start) -> None:
    libraries, java = os.environ.get("ONCELOG_KAFKA_LIBS"), shutil.which("java")
    if libraries is None or java is None:
        pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiver.bind(("127.0.0.1", 0))
        host, port = receiver.getsockname()
        daemon = start_daemon(
            f"oncelog.statsd.address={host}:{port}",
            "oncelog.statsd.interval.ms=300",
            "auto.create.topics.enable=false",
        )
        command = [java, "-Xmx256m", "-cp", f"{libraries}/*", str(PROGRAM), daemon.bootstrap]
        run = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
        assert run.returncode == 0, run.stderr
        assert run.stdout.splitlines() == [
            "one record a round: 60 records, 60 different",
            "half of it forgotten: 60 records, 60 different",
            "made anew: [first, first, first, second, second, second]",
        ]
        daemon.stop()
        counted = totals(receiver)
    assert counted["incremental_fetches"] > 100
    assert counted["full_fetches"] < 15
