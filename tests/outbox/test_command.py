"""`oncelog outbox` as people call it: a process, its sentences, its exit codes, its metrics."""

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.testing import Broker
from tests.support.patience import PATIENCE_S, until
from tests.support.postgres.server import Postgres, need_programs, open_directory

psycopg = pytest.importorskip("psycopg", reason="the outbox needs psycopg: pip install 'oncelog[postgres]'")
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "oncelog", "outbox"]


@pytest.fixture
def dsn(server: Postgres, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"shop_{abs(hash(request.node.name)) % 10**8}"
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        yield server.dsn_of(name)
        for act in ("pg_terminate_backend(active_pid, 60000)", "pg_drop_replication_slot(slot_name)"):
            connection.execute(f"select {act} from pg_replication_slots where database = '{name}'")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as found:
        found.create_topic("events")
        yield found


def call(*arguments: str, code: int = 0) -> str:
    """Returns what the command says, in this process; it ends with this code."""
    done = CliRunner().invoke(main, ["outbox", *arguments], prog_name="oncelog")
    assert done.exit_code == code, done.output
    return done.output


@contextmanager
def running(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [*COMMAND, "run", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(stream: IO[str] | None) -> str:
    return stream.readline() if stream is not None else ""


def produce(dsn: str, value: str, topic: str = "events") -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("select oncelog.produce(%s, 'k', %s::text)", [topic, value])


def test_from_install_to_remove(dsn: str, broker: Broker) -> None:
    """Each command prints the next step; a relay that is killed continues where it was."""
    to = ("-b", broker.bootstrap_servers)
    assert "no relay oncelog_outbox is installed in this database: `oncelog outbox install DSN`" in call(
        "run", dsn, *to, code=2
    )
    said = call("install", dsn, "--grant", "postgres")
    assert "There is now: slot oncelog_outbox." in said and "grant usage on schema oncelog to RELAY;" in said
    produce(dsn, "a1")
    for value in ("b1", "c1"):
        with running(dsn, *to, "--json") as process:
            assert json.loads(line(process.stdout))["event"] == "started"
            produce(dsn, value)
            wait_for(broker, value)
            process.send_signal(signal.SIGKILL)
    assert [each.value for each in broker.records("events")] == [b"a1", b"b1", b"c1"]
    found = json.loads(call("status", dsn, *to, "--json"))
    assert (found["carrier"], found["slot"] in ("idle", "read"), found["last_error"]) == ("wal", True, None)
    assert "position" in call("status", dsn, *to)
    said = call("remove", dsn, *to)
    assert "schema oncelog" in said and "the position on the target" in said


def wait_for(broker: Broker, value: str) -> None:
    until(lambda: any(each.value == value.encode() for each in broker.records("events")))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_it_is_stopped_with_ctrl_c_or_sigterm(dsn: str, broker: Broker, how: signal.Signals) -> None:
    call("install", dsn)
    with running(dsn, "-b", broker.bootstrap_servers, "--metrics-listen", "127.0.0.1:0") as process:
        address = line(process.stdout).removeprefix("Metrics: ").strip()
        assert line(process.stdout).startswith("Relaying shop_")
        with urllib.request.urlopen(address) as answer:
            metrics = answer.read().decode()
        assert 'oncelog_outbox_up{relay="oncelog_outbox"} 1.0' in metrics
        assert 'oncelog_outbox_events_total{relay="oncelog_outbox"} 0.0' in metrics
        process.send_signal(how)
        _, errors = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, errors) == (0, "")


def test_an_end_says_what_happened_is_kept_and_is_shown_by_status(dsn: str, broker: Broker) -> None:
    call("install", dsn)
    produce(dsn, "lost", "no-such")
    said = call("run", dsn, "-b", broker.bootstrap_servers, code=2)
    assert "there is no topic 'no-such': `oncelog topic create no-such -b " in said
    found: dict[str, Any] = json.loads(call("status", dsn, "-b", broker.bootstrap_servers, "--json"))
    assert "there is no topic 'no-such'" in found["last_error"] and found["last_error_at"]


@pytest.mark.parametrize(
    ("dsn", "sentence"),
    [
        ("postgresql://nobody@127.0.0.1:1/x", "Connection refused"),
        ("not a dsn", 'missing "="'),
        ("host=127.0.0.1 nonsense=1", "invalid connection option"),
    ],
)
def test_a_database_that_cannot_be_reached_is_one_sentence(dsn: str, sentence: str, broker: Broker) -> None:
    for arguments in (["install", dsn], ["run", dsn, "-b", broker.bootstrap_servers]):
        said = call(*arguments, code=2)
        assert said.startswith("oncelog: the database: ") and sentence in said and said.count("\n") == 1


def test_a_server_without_logical_decoding_is_answered_with_how_to_have_it(broker: Broker) -> None:
    with open_directory() as place:
        server = Postgres(place / "data", need_programs(), {"wal_level": "replica", "fsync": "off"})
        try:
            assert "set it to logical and start the server again" in call("install", server.dsn, code=2)
            assert "relay oncelog_outbox with carrier poll" in call("install", server.dsn, "--carrier", "poll")
        finally:
            server.stop("immediate")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["install", "x", "--name", "Bad-Name"], "has a-z, 0-9 and _"),
        (
            ["run", "x", "--keep", "soon"],
            "'soon' is not a duration: write a number with ms, s, m, h or d behind it, such as 7d, or forever",
        ),
        (["run", "x", "--refuse-to", "elsewhere"], "write topic:NAME, or table:NAME"),
        (["install", "x", "--carrier", "pigeon"], "'pigeon' is not one of"),
    ],
)
def test_a_wrong_option_says_what_it_takes(arguments: list[str], sentence: str) -> None:
    assert sentence in call(*arguments, code=2)


def test_doctor_says_of_each_relay_whether_it_has_ended_and_why(dsn: str, broker: Broker) -> None:
    """No relay: what to do; a relay that has ended for an event: the event; a slot that is gone: that."""
    to = ("-b", broker.bootstrap_servers)

    def findings() -> dict[str, tuple[str, str]]:
        done = CliRunner().invoke(main, ["doctor", *to, "--outbox", dsn, "--json"])
        found = {each["check"]: (each["result"], each["detail"]) for each in json.loads(done.stdout)}
        is_wrong = any(result == "wrong" for result, _ in found.values())
        assert done.exit_code == (1 if is_wrong else 0), done.stderr
        return {check: each for check, each in found.items() if check.startswith(("outbox", "relay"))}

    assert findings() == {"outbox": ("look", "none is installed there: `oncelog outbox install DSN`")}
    call("install", dsn)
    fine = ("ok", "it has ended for no reason of its own")
    assert findings() == {"relay oncelog_outbox": fine}
    produce(dsn, "never", topic="missing")
    call("run", dsn, *to, code=2)
    ((result, detail),) = findings().values()
    assert result == "wrong" and "event 1 of the SQL transaction at" in detail
    assert "there is no topic 'missing'" in detail and "--refuse-to" in detail
    broker.create_topic("missing")
    with running(dsn, *to) as process:
        assert "Relaying" in line(process.stdout)
        assert findings() == {"relay oncelog_outbox": fine}
    with psycopg.connect(dsn, autocommit=True) as connection:
        until(lambda: connection.execute("select bool_or(active) from pg_replication_slots").fetchone() == (False,))
        connection.execute("select pg_drop_replication_slot('oncelog_outbox')")
    assert findings() == {"relay oncelog_outbox": ("wrong", "its slot is gone")}
