"""The Java producer whose commit comes after its timeout: the error that it gets decides whether applications
recover.
"""

import subprocess
from pathlib import Path

import pytest

from tests.conftest import Start
from tests.daemon.test_spark_sink import with_faults
from tests.support.kafka.server import java_with_kafka

pytestmark = pytest.mark.kafka

PROGRAM = Path(__file__).parent / "JavaOverdue.java"
LONG_MS = 1_000_000


@pytest.mark.parametrize(
    ("settings", "error"),
    [((), "ProducerFencedException"), (("oncelog.compat=kafka",), "InvalidTxnStateException")],
)
def test_a_late_commit_is_fenced_as_kafka_streams_expects_or_fails_as_with_kafka_4_3(
    start_daemon: Start, settings: tuple[str, ...], error: str
) -> None:
    daemon, faults = with_faults(start_daemon, *settings)
    command = [*java_with_kafka(), str(PROGRAM), daemon.bootstrap]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as java:
        assert java.stdin is not None and java.stdout is not None
        assert java.stdout.readline() == "open\n"
        faults.advance_time(LONG_MS)
        java.stdin.write("\n")
        java.stdin.close()
        assert java.stdout.read().splitlines() == [error, "committed"]
    assert java.returncode == 0
