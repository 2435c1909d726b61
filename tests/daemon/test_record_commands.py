"""`oncelog record` as a process: its standard streams, signals and exit codes, as a shell sees them."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.client import NewTopic, TopicPartition
from oncelog.sync import Admin, Consumer, Producer
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

ROOT = Path(__file__).parent.parent.parent
ONCELOG = (sys.executable, "-m", "oncelog")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@contextmanager
def started(broker: Broker, *arguments: str, in_background: bool = False) -> Iterator["subprocess.Popen[bytes]"]:
    """The command, whose standard input stays open; killed in the end if it still runs. In the background of a script
    Ctrl-C is ignored."""
    command = [*ONCELOG, *arguments, "--bootstrap", broker.bootstrap_servers]
    if in_background:
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
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
    code = process.wait(PATIENCE_S)
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
        assert code == 2 and said.startswith("oncelog: MESSAGE_TOO_LARGE"), said


@pytest.mark.parametrize(
    "how, in_background", [(signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGTERM, True)]
)
def test_a_transaction_that_is_left_open_is_aborted_when_the_command_is_interrupted_and_it_says_so(
    broker: Broker, how: signal.Signals, in_background: bool
) -> None:
    topic = f"open-{how.name}-{in_background}"
    create(broker, topic)
    options = ("--transactional-id", topic, "--leave-open", "5m")
    with started(broker, "record", "produce", topic, "plums", *options, in_background=in_background) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"the transaction stays open for 300 s\n"
        process.send_signal(how)
        assert ended(process) == (130, "interrupted: the transaction is aborted\n")
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.describe_transaction(topic).state == "CompleteAbort"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_follows_is_done_when_it_is_interrupted(broker: Broker, how: signal.Signals) -> None:
    with started(broker, "txn", "tail") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith(b"following ")
        process.send_signal(how)
        assert ended(process) == (0, "")


# --- output that cannot be written ------------------------------------------------------------------------------------

WRITING = (
    ("topic", "list"),
    ("topic", "list", "--json"),
    ("record", "consume", "shown", "--exit"),
    ("record", "consume", "shown", "--exit", "--json"),
    ("record", "consume", "shown", "--exit", "--group", "readers"),
    ("txn", "tail", "--from-beginning", "--count", "1"),
)


@pytest.fixture(scope="module")
def shown(broker: Broker) -> str:
    """A topic with a record, and a transaction."""
    with Producer(broker.bootstrap_servers, transactional_id="shown") as producer:
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topics("shown")
        with producer.transaction() as transaction:
            transaction.send("shown", b"plums")
    return broker.bootstrap_servers


def shell(command: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A command with $@ for oncelog and its arguments."""
    return subprocess.run(
        ["sh", "-c", command, "sh", *ONCELOG, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S
    )


@pytest.mark.sampled(5)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("arguments", WRITING, ids=" ".join)
def test_output_that_cannot_be_written_is_said_and_is_a_failure(shown: str, arguments: tuple[str, ...]) -> None:
    answer = shell('exec "$@" >/dev/full', *arguments, "--bootstrap", shown)
    said = answer.stderr.splitlines()
    assert (answer.returncode, said[-1]) == (2, "oncelog: standard output cannot be written: No space left on device")
    assert said[:-1] in ([], [f"following {shown}; press Ctrl-C to stop"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has it")
@pytest.mark.parametrize("arguments", [("log", "dump"), ("log", "dump", "--json"), ("log", "map")], ids=" ".join)
def test_output_about_files_that_cannot_be_written_is_a_failure(
    start_daemon: Callable[..., Daemon], arguments: tuple[str, ...]
) -> None:
    daemon = start_daemon()
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics("files")
        producer.send("files", b"plums")
    answer = shell('exec "$@" >/dev/full', *arguments, str(daemon.data_dir / "files-0"))
    wanted = "oncelog: standard output cannot be written: No space left on device\n"
    assert (answer.returncode, answer.stderr) == (2, wanted)


def test_a_closed_standard_output_is_refused_before_anything_is_changed(broker: Broker) -> None:
    create(broker, "untouched")
    answer = shell('exec "$@" >&-', "record", "produce", "untouched", "x", "--bootstrap", broker.bootstrap_servers)
    wanted = "oncelog: standard output is closed: send it to a file, or to /dev/null\n"
    assert (answer.returncode, answer.stderr) == (2, wanted)
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.list_offsets([TopicPartition("untouched", 0)])[TopicPartition("untouched", 0)].offset == 0


def test_a_closed_standard_input_is_said(broker: Broker) -> None:
    create(broker, "unfed")
    answer = shell('exec "$@" <&-', "record", "produce", "unfed", "--bootstrap", broker.bootstrap_servers)
    wanted = "oncelog: standard input is closed: there is nothing to read\n"
    assert (answer.returncode, answer.stderr) == (2, wanted)


# --- what was written -------------------------------------------------------------------------------------------------


def produced(broker: Broker, topic: str, text: bytes, *options: str) -> "subprocess.CompletedProcess[str]":
    create(broker, topic)
    command = [*ONCELOG, "record", "produce", topic, "--bootstrap", broker.bootstrap_servers, *options]
    answer = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, timeout=PATIENCE_S)
    return subprocess.CompletedProcess(command, answer.returncode, answer.stdout.decode(), answer.stderr.decode())


LARGE = b"x" * 2_000_000
TOO_LARGE = (
    "oncelog: line 3: MESSAGE_TOO_LARGE: the batch has 2000074 bytes, max.message.bytes is 1048588; "
    "`oncelog config alter --topic TOPIC --set max.message.bytes=BYTES` allows more; "
)


def test_a_record_that_fails_is_named_and_what_was_written_is_shown(broker: Broker) -> None:
    answer = produced(broker, "some", b"one\ntwo\n" + LARGE, "--json")
    assert (answer.returncode, answer.stderr) == (2, f"{TOO_LARGE}written so far: 2 of 3 records\n")
    (row,) = json.loads(answer.stdout)
    assert (row["records"], row["first_offset"], row["last_offset"]) == (2, 0, 1)


def test_a_record_that_fails_in_a_transaction_keeps_all_from_being_committed(broker: Broker) -> None:
    answer = produced(broker, "none", b"one\ntwo\n" + LARGE, "--json", "--transactional-id", "none")
    assert (answer.returncode, answer.stderr) == (2, f"{TOO_LARGE}nothing is committed\n")
    assert [row["transaction"] for row in json.loads(answer.stdout)] in ([], ["aborted"])


def test_a_topic_with_a_higher_limit_takes_larger_records(broker: Broker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics(NewTopic("roomy", configs={"max.message.bytes": "3000000"}))
    command = [*ONCELOG, "record", "produce", "roomy", "--bootstrap", broker.bootstrap_servers]
    assert subprocess.run(command, cwd=ROOT, input=LARGE, capture_output=True, timeout=PATIENCE_S).returncode == 0


def test_no_input_is_no_record_and_is_said(broker: Broker) -> None:
    answer = produced(broker, "empty", b"")
    assert (answer.returncode, answer.stdout) == (0, "Standard input is empty: no record was sent.\n")


@pytest.mark.parametrize("follow", [("record", "consume", "one-line", "--offset", "start"), ("txn", "tail")])
def test_what_follows_ends_when_its_reader_has_seen_enough(broker: Broker, follow: tuple[str, ...]) -> None:
    """A follower before `| head -1` ends at once and with 0, though no further line would show that the pipe is
    closed.
    """
    with Admin(broker.bootstrap_servers) as admin, Producer(broker.bootstrap_servers) as producer:
        admin.create_topics("one-line", exist_ok=True)
        producer.send("one-line", b"the only one")
    options = () if follow[0] == "record" else ("--from-beginning",)
    with Producer(broker.bootstrap_servers, transactional_id="one-line") as producer:
        producer.init_transactions()
    with started(broker, *follow, *options) as process:
        assert process.stdout is not None and process.stdout.readline()
        process.stdout.close()
        code, said = ended(process)
        assert code == 0 and "Traceback" not in said and "oncelog:" not in said
