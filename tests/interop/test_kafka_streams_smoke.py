"""Kafka Streams' own smoke test, unmodified, with exactly_once_v2, in a classic group and in a streams group
(KIP-1071): its client computes, its driver feeds and verifies.

The driver writes numbers, and holds the minimum, maximum, sum, count, average and windows that come out in a dozen
topics against what it wrote; with exactly-once it wants each of them to be exact. In the middle the client is killed
and started again, as Kafka's system tests do.
"""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import Start
from tests.support.foreign.interop import JAVA_CLASSES, KAFKA_TESTS, QUICK_GROUPS, await_line, java_command, needs
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.interop

CLIENT = "org.apache.kafka.streams.tests.StreamsSmokeTest"
# As Kafka's system test makes them.
TOPICS = ("data", "echo", "max", "min", "dif", "sum", "cnt", "avg", "tagg", "fk")
TOPICS += ("min-raw", "min-suppressed", "sws-raw", "sws-suppressed")
KEYS, RECORDS_PER_KEY, SECONDS = 20, 250, 15
"""Kafka's own run has 1,000 records a key."""
VERIFIED = {"min-suppressed", "min", "max", "dif", "sum", "cnt", "avg"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protocol", ["classic", "streams"])
def test_the_smoke_test_of_streams_verifies_every_result(start_daemon: Start, tmp_path: Path, protocol: str) -> None:
    needs(KAFKA_TESTS, JAVA_CLASSES / "SmokeDriver.class")
    daemon = start_daemon(*QUICK_GROUPS)
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    for future in admin.create_topics([NewTopic(name, 5, 1) for name in TOPICS]).values():
        future.result(PATIENCE_S)
    properties = settings(daemon, tmp_path, protocol)
    driving = java_command("SmokeDriver", daemon.bootstrap, str(KEYS), str(RECORDS_PER_KEY), str(SECONDS))
    with subprocess.Popen(driving, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as driver:
        try:
            with running(properties, tmp_path):
                await_line(driver, " 2000 records produced")
            with running(properties, tmp_path):
                printed = driver.communicate(timeout=PATIENCE_S)[0]
        finally:
            driver.kill()
    # Counted: every record, and every topic that is verified, not the last word alone.
    lines = printed.splitlines()
    assert "SUCCESS" in lines and "ALL-RECORDS-DELIVERED" in lines, printed[-3000:]
    assert f"recordProcessed={KEYS * RECORDS_PER_KEY}" in lines, printed[-3000:]
    assert set(re.findall(r"^verifying topic '(\S+)'$", printed, re.MULTILINE)) == VERIFIED


@contextmanager
def running(properties: Path, directory: Path) -> Iterator[None]:
    """The client, until SIGKILL."""
    log = (directory / "client.log").open("a")
    with log, subprocess.Popen(java_command(CLIENT, str(properties), "process"), stdout=log, stderr=log) as client:
        try:
            yield
        finally:
            client.kill()


def settings(daemon: Daemon, directory: Path, protocol: str) -> Path:
    path = directory / "smoke.properties"
    lines = [
        f"bootstrap.servers={daemon.bootstrap}",
        "processing.guarantee=exactly_once_v2",
        f"state.dir={directory / 'state'}",
        f"group.protocol={protocol}",
        # The broker decides it for a streams group.
        *(("session.timeout.ms=4000",) if protocol == "classic" else ()),
        "commit.interval.ms=200",
        "replication.factor=1",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
