"""`oncelog record` as a process: its standard streams, signals and exit codes, as a shell sees them."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.sync import Admin, Consumer
from oncelog.testing import Broker

ROOT = Path(__file__).parent.parent.parent
ONCELOG = (sys.executable, "-m", "oncelog")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@contextmanager
def started(broker: Broker, *arguments: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The command, whose standard input stays open; killed in the end if it still runs."""
    command = [*ONCELOG, *arguments, "--bootstrap", broker.bootstrap_servers]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def type_in(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(text)
    process.stdin.flush()


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """The exit code, and what it said; standard input is still open."""
    code = process.wait(30)
    assert process.stderr is not None
    return code, process.stderr.read().decode()


def create(broker: Broker, topic: str) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics(topic)


def wait_for_a_record(broker: Broker, topic: str) -> None:
    """One that is not committed counts."""
    with Consumer(
        topic,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_uncommitted",
    ) as consumer:
        while not consumer.poll(30_000):
            pass


# --- standard input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--transactional-id", "till")], ids=["plain", "transaction"])
def test_ctrl_c_ends_produce_while_it_waits_for_a_line(broker: Broker, options: tuple[str, ...]) -> None:
    topic = f"typed-{len(options)}"
    create(broker, topic)
    with started(broker, "record", "produce", topic, *options) as process:
        type_in(process, b"hello\n")
        wait_for_a_record(broker, topic)  # then nothing but another line is waited for
        process.send_signal(signal.SIGINT)
        code, said = ended(process)
        assert code == 130 and "Fatal Python error" not in said and "Traceback" not in said


def test_an_error_ends_produce_while_more_lines_may_come(broker: Broker) -> None:
    create(broker, "large")
    with started(broker, "record", "produce", "large") as process:
        type_in(process, b"x" * 2_000_000 + b"\n")
        code, said = ended(process)
        assert code == 2 and said.startswith("oncelog: MESSAGE_TOO_LARGE") and len(said.splitlines()) == 1
