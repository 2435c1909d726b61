"""The clients that `make interop` fetches: where they are, what they print; a test skips where one is not there."""

import os
import shutil
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import Protocol

import pytest

from oncelog.sync import Admin
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

ROOT = Path(__file__).parent.parent.parent.parent
PLACE = ROOT / ".interop"
"""Where tools/interop.py puts what it fetches and builds."""
GO_PROGRAM = PLACE / "go" / "interop"
NODE_PACKAGES = PLACE / "node" / "node_modules"
CONFLUENT_NODE_PACKAGES = PLACE / "confluentjs" / "node_modules"
JAVA_CLASSES = PLACE / "java"
KAFKA_TESTS = PLACE / "kafka-tests"
FLINK = PLACE / "flink"
QUICK_GROUPS = (
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=200",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=4000",
    "group.consumer.assignment.interval.ms=0",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=200",
    "group.share.min.session.timeout.ms=1000",
    "group.share.session.timeout.ms=4000",
    "group.share.assignment.interval.ms=0",
    "group.share.min.record.lock.duration.ms=1000",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.min.heartbeat.interval.ms=100",
    "group.streams.heartbeat.interval.ms=200",
    "group.streams.min.session.timeout.ms=1000",
    "group.streams.session.timeout.ms=4000",
    "group.streams.assignment.interval.ms=0",
)
"""A daemon that misses killed members soon, of each group protocol."""
SHARE_STATE_ON_ONE_NODE = (
    "share.coordinator.state.topic.replication.factor=1",
    "share.coordinator.state.topic.min.isr=1",
    "share.coordinator.state.topic.num.partitions=2",
)
"""Settings that share groups need on an Apache Kafka of one node."""
READ_OF_TRANSACTIONS = [
    f"{level} " + " ".join(f"{number}-{partition}" for number in numbers for partition in range(3))
    for level, numbers in (("read_committed", (0, 2, 4)), ("read_uncommitted", range(6)))
]
"""What scenes print that write six transactions to three partitions and abort each second one."""


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def needs(*paths: Path) -> None:
    for path in paths:
        if not path.exists():
            pytest.skip(f"needs {path.name}, which `make interop` makes")


def class_path() -> str:
    """Kafka's jars, and our programs that are compiled against them."""
    libraries = os.environ.get("ONCELOG_KAFKA_LIBS")
    if libraries is None or shutil.which("java") is None:
        pytest.skip("needs java, and ONCELOG_KAFKA_LIBS with the directory of Kafka's jars")
    return f"{JAVA_CLASSES}:{libraries}/*:{KAFKA_TESTS}/*"


def java_command(main_class: str, *arguments: str) -> list[str]:
    # The quick compiler alone: tools live for a second or two.
    return [
        "java",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        class_path(),
        main_class,
        *arguments,
    ]


def java_source(program: Path, *arguments: str) -> list[str]:
    """The command that runs a source file over Kafka's jars."""
    return java_command(str(program), *arguments)


def run(command: list[str], feed: str = "", code: int = 0) -> str:
    """Returns the output of a program, which must end with that exit code, in time."""
    ended = subprocess.run(command, input=feed, capture_output=True, text=True, timeout=PATIENCE_S)
    assert ended.returncode == code, (
        f"{command} ended with {ended.returncode}\n{ended.stdout[-4000:]}\n{ended.stderr[-4000:]}"
    )
    return ended.stdout


def run_java(main_class: str, *arguments: str, feed: str = "", code: int = 0) -> str:
    return run(java_command(main_class, *arguments), feed, code)


def await_line(process: "subprocess.Popen[str]", text: str) -> str:
    """Reads what a program prints until a line has this text."""
    if process.stdout is None:
        raise ValueError("the program's output is not read")
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"the program ended without saying {text!r}")


class Killable(Protocol):
    """A broker, or what stands for one."""

    def kill(self) -> object: ...

    def start(self) -> object: ...


def finished_while_killed(command: list[str], daemon: Killable, pause_s: float, kills: int = 3) -> list[str]:
    """Returns the lines that a program prints after "loaded", while the broker is killed some times under it."""
    pause = threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        await_line(process, "loaded")
        for _ in range(kills):
            pause.wait(pause_s)  # some transactions are done, others open
            daemon.kill()
            daemon.start()
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, err
    return out.splitlines()


def await_no_lag(daemon: Daemon, group: str) -> None:
    """Wait until a share group has acknowledged all. If the answer to an acknowledgement was lost, members cannot say
    whether it was accepted."""
    pause, deadline = threading.Event(), time.monotonic() + PATIENCE_S
    with Admin(daemon.bootstrap) as admin:
        while any(offset.lag for offset in admin.list_share_group_offsets(group).values()):
            assert time.monotonic() < deadline, admin.list_share_group_offsets(group)
            pause.wait(0.1)
