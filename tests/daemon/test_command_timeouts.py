"""`--timeout` bounds every command that asks a cluster, whatever that does not do."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client.blocking.clients import Admin, Producer
from oncelog.faults import Action, Point, Rule, Selector
from tests.support.pages.command_tree import ARGUMENTS, ASKING
from tests.support.patience import ends
from tests.support.processes.daemon import Daemon
from tests.support.processes.faults import faults_of

pytestmark = pytest.mark.sampled(3)

TIMEOUT_S = 0.5
WAITS_S = 60
"""Longer than a busy machine needs for half a second, and shorter than any patience of the client's."""
FOLLOWING = {"record consume": ("--exit", "-o", "start"), "txn tail": ("--count", "1")}
"""Options for commands that would wait for news if they were given no end."""
WAITING = ("txn tail",)
"""Its end is news, too."""


def run(name: str, bootstrap: str, *more: str) -> tuple[int, str]:
    words = [*name.split(), *ARGUMENTS.get(name, ()), *FOLLOWING.get(name, ()), *more]
    return invoke(*words, "--bootstrap", bootstrap)


def invoke(*words: str, timeout_s: float = TIMEOUT_S) -> tuple[int, str]:
    with ends(WAITS_S):
        result = CliRunner().invoke(main, [*words, "--timeout", str(timeout_s)], input="secret\nsecret\n")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@contextmanager
def silent(upstream: str | None, most_answers: int) -> Iterator[str]:
    """The address of a broker whose connections are silent after so many answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=200) as server:
        kept: list[socket.socket] = []

        def serve(connection: socket.socket) -> None:
            assert upstream is not None
            host, _, port = upstream.rpartition(":")
            with suppress(OSError), socket.create_connection((host, int(port))) as broker:
                for _ in range(most_answers):
                    broker.sendall(connection.recv(65_536))
                    connection.sendall(broker.recv(65_536))

        def accept() -> None:
            with suppress(OSError):  # the server is closed
                while True:
                    connection, _ = server.accept()
                    kept.append(connection)
                    if most_answers:
                        threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()


@pytest.mark.parametrize("name", ASKING)
def test_command_ends_whose_broker_never_answers(name: str) -> None:
    with silent(None, 0) as bootstrap:
        exit_code, said = run(name, bootstrap)
    assert exit_code == (1 if name in ("doctor", "health") else 2)
    assert bootstrap in said


@pytest.mark.parametrize("name", [each for each in ASKING if each != "health"])
def test_command_ends_whose_broker_falls_silent_after_its_first_answer(name: str, daemon: Daemon) -> None:
    with silent(daemon.bootstrap, 1) as bootstrap:
        exit_code, said = run(name, bootstrap)
    assert exit_code == (1 if name == "doctor" else 2), said
    assert said.strip()


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker that refuses every write, with a topic t that has a record."""
    daemon = Daemon(tmp_path_factory.mktemp("full") / "data", "oncelog.admin.listen=127.0.0.1:0")
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap, transactional_id="x") as producer:
        admin.create_topics("t")
        with producer.transaction() as transaction:
            transaction.send("t", b"one")
    faults_of(daemon).plant(Rule(Point.APPEND, Action.NO_ROOM, Selector(), times=None))
    yield daemon.bootstrap
    daemon.stop()


@pytest.mark.parametrize("name", [each for each in ASKING if each not in WAITING])
def test_command_ends_whose_broker_refuses_writes_for_ever(name: str, full: str) -> None:
    exit_code, said = run(name, full)
    assert exit_code in (0, 1, 2), said


@pytest.mark.parametrize(
    "more",
    [("--transactional-id", "y"), ("--transactional-id", "y", "--abort"), ("-p", "0")],
    ids=["transaction", "abort", "plain"],
)
def test_record_that_cannot_be_written_is_given_up(full: str, more: tuple[str, ...]) -> None:
    exit_code, said = run("record produce", full, *more)
    assert exit_code == 2 and len(said.splitlines()) <= 2, said


def test_group_that_cannot_commit_does_not_wait_for_ever(full: str) -> None:
    exit_code, said = run("record consume", full, "--group", f"g-{os.getpid()}", "--offset", "start")
    assert exit_code == 2, said


# --- a copy, which has two clusters -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a topic s that has a record."""
    daemon = Daemon(tmp_path_factory.mktemp("source") / "data")
    with Admin(daemon.bootstrap) as admin, Producer(daemon.bootstrap) as producer:
        admin.create_topics("s")
        producer.send("s", b"one")
    yield daemon.bootstrap
    daemon.stop()


@pytest.mark.parametrize("options", [("--once",), ("--once", "--dry-run")], ids=" ".join)
@pytest.mark.parametrize("most_answers", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("is_source", [True, False], ids=["source", "target"])
def test_copy_ends_one_of_whose_clusters_falls_silent(
    daemon: Daemon, source: str, is_source: bool, most_answers: int, options: tuple[str, ...]
) -> None:
    upstream = source if is_source else daemon.bootstrap
    with silent(upstream, most_answers) as bootstrap:
        sides = (bootstrap, daemon.bootstrap) if is_source else (source, bootstrap)
        exit_code, said = invoke("copy", *sides, *options, "--json")
    assert exit_code == 2 or (exit_code == 0 and most_answers), said
    assert said.strip()


@pytest.mark.parametrize("option", ["--once", "--switch"])
def test_copy_to_a_full_disk_ends(full: str, source: str, option: str) -> None:
    exit_code, said = invoke("copy", source, full, option)
    assert exit_code == 2 and said.strip(), said


def test_copy_that_waits_for_an_open_transaction_ends_and_names_it(daemon: Daemon, source: str) -> None:
    with Producer(source, transactional_id="open") as producer:
        with producer.transaction() as transaction:
            transaction.send("s", b"two")
            # Long enough for it to come as far as the transaction, also on a busy machine.
            exit_code, said = invoke("copy", source, daemon.bootstrap, "--once", "--topics", "s", timeout_s=10)
    assert exit_code == 2
    assert "nothing was copied" in said, said
