"""`oncelog txn tail` as a process beside a daemon: live, filtered, over a restart, ended by Ctrl-C."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.clients.conversation import Conversation
from tests.clients.wire import WireBroker
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

ROOT = Path(__file__).parent.parent.parent
ONE_COMMIT = [("Empty", "Ongoing"), ("Ongoing", "PrepareCommit"), ("PrepareCommit", "CompleteCommit")]


@contextmanager
def tailing(bootstrap: str, *options: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-P", "-m", "oncelog", "txn", "tail", "--bootstrap", bootstrap, *options]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=pipe, stderr=pipe, text=True)
    with process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith(f"following {bootstrap}")
            yield process
        finally:
            process.kill()


@contextmanager
def talking(bootstrap: str) -> Iterator[Conversation]:
    broker = WireBroker(bootstrap)
    talk = Conversation(broker, time.time_ns() // 1_000_000)
    while talk.ask("FindCoordinator", 2, key="any", key_type=1).error_code:
        broker.let_pass(20)
    yield talk
    broker.close()


def transact(talk: Conversation, transactional_id: str, *, committed: bool) -> None:
    producer = talk.started(transactional_id)
    assert producer.add(0, topic="payments") == ["NONE"]
    assert producer.write(0, topic="payments") == "NONE"
    producer.ended(committed)


def rows(process: "subprocess.Popen[str]", count: int) -> list[Any]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(count)]


def test_transitions_are_shown_as_they_happen_and_ctrl_c_ends_it_cleanly(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with talking(daemon.bootstrap) as talk:
        talk.create_topic("payments", 1)
        transact(talk, "orders", committed=False)
        with tailing(daemon.bootstrap, "--json") as process:
            transact(talk, "orders", committed=True)
            told = rows(process, 4)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
    steps = [(row["previous_state"], row["state"]) for row in told]
    assert steps == [("CompleteAbort", "Empty"), *ONE_COMMIT]
    assert [row["partitions"] for row in told] == [[], *[["payments-0"]] * 3]
    assert (process.returncode, stdout, stderr) == (0, "", "")


def test_filters_leave_the_rest_out_and_a_count_ends_it(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with talking(daemon.bootstrap) as talk:
        talk.create_topic("payments", 1)
        for number in range(3):
            transact(talk, f"orders-{number}", committed=number == 1)
    filters = ("--transactional-id-pattern", "orders-[12]", "--state", "CompleteCommit", "--count", "1")
    with tailing(daemon.bootstrap, "--json", "--from-beginning", *filters) as process:
        stdout, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    (row,) = map(json.loads, stdout.splitlines())
    assert (row["transactional_id"], row["state"]) == ("orders-1", "CompleteCommit")


def test_a_broker_that_was_killed_and_comes_back_is_followed_on(start_daemon: Callable[..., Daemon]) -> None:
    daemon = start_daemon()
    with talking(daemon.bootstrap) as talk:
        talk.create_topic("payments", 1)
        transact(talk, "before", committed=True)
    with tailing(daemon.bootstrap, "--json", "--from-beginning") as process:
        assert [row["transactional_id"] for row in rows(process, 4)] == ["before"] * 4
        daemon.kill()
        daemon.start()
        with talking(daemon.bootstrap) as talk:
            transact(talk, "after", committed=True)
        told = rows(process, 4)
    assert [row["transactional_id"] for row in told] == ["after"] * 4
    assert [(row["previous_state"], row["state"]) for row in told] == [(None, "Empty"), *ONE_COMMIT]


def test_no_broker_there_ends_with_exit_code_2() -> None:
    command = [sys.executable, "-P", "-m", "oncelog", "txn", "tail", "--bootstrap", "127.0.0.1:1"]
    answer = subprocess.run(
        command,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert answer.returncode == 2
    assert answer.stderr.startswith("oncelog: ")
    assert "Traceback" not in answer.stderr
