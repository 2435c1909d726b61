"""Several nodes over one schema of PostgreSQL: what the command line shows of them, and what it can ask."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from oncelog.cli import main
from tests.daemon.test_metrics import ask
from tests.support.patience import PATIENCE_S
from tests.support.postgres.server import Postgres
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.postgres

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_schemas = count()


class Nodes:
    """One schema, and the nodes that were started on it, by their ids."""

    def __init__(self, dsn: str, directory: Path) -> None:
        self.dsn = dsn
        self.schema = f"nodes_{os.getpid()}_{next(_schemas)}"
        self._directory = directory
        self.daemons: dict[int, Daemon] = {}

    def start(self, node_id: int, *overrides: str) -> Daemon:
        storage = ("--storage", self.dsn, "--schema", self.schema, "--node-id", str(node_id))
        self.daemons[node_id] = Daemon(self._directory / str(node_id), *overrides, storage=storage)
        return self.daemons[node_id]

    def command(self, name: str, *arguments: str, environ: dict[str, str] | None = None) -> Result:
        """`oncelog cluster NAME`."""
        return CliRunner().invoke(main, ["cluster", name, *arguments], env=environ)

    def ask(self, name: str, *arguments: str) -> Any:
        done = self.command(name, self.dsn, "--schema", self.schema, "--json", *arguments)
        assert done.stderr == "", done.stderr
        return json.loads(done.stdout)

    def refused(self, name: str, *arguments: str) -> str:
        done = self.command(name, self.dsn, "--schema", self.schema, *arguments)
        assert done.exit_code == 2, done.output
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    def wait_until(self, is_so: Callable[[Any], bool]) -> Any:
        """Ask for the status until it is so, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so(found := self.ask("status")):
            assert time.monotonic() < deadline, found
        return found

    def wait_for(self, wanted: dict[int, str]) -> None:
        self.wait_until(lambda status: states_of(status) == wanted)


def states_of(status: Any) -> dict[int, str]:
    return {row["node_id"]: row["state"] for row in status["nodes"]}


@pytest.fixture
def nodes(postgres: Postgres, tmp_path: Path) -> Iterator[Nodes]:
    found = Nodes(postgres.dsn, tmp_path)
    yield found
    for daemon in found.daemons.values():
        daemon.stop()


def test_status_shows_who_leads_who_stands_by_and_who_has_gone(nodes: Nodes) -> None:
    """The output is a table for people and JSON for programs, and the address may come from wherever a broker takes
    it.
    """
    first = nodes.start(1)
    alone = nodes.ask("status")
    assert (alone["leader"], alone["attended"], [row["state"] for row in alone["nodes"]]) == (1, True, ["leads"])
    assert 0 < alone["lease_left_seconds"] <= 10
    assert alone["leading_seconds"] >= 0
    second = nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    found = nodes.wait_until(lambda status: status["nodes"][1]["rounds_behind"] == 0)
    assert [row["addresses"] for row in found["nodes"]] == [
        [f"PLAINTEXT://{daemon.bootstrap}"] for daemon in (first, second)
    ]
    environ = {"KAFKA_ONCELOG_POSTGRES_DSN": nodes.dsn, "KAFKA_ONCELOG_POSTGRES_SCHEMA": nodes.schema}
    table = nodes.command("status", environ=environ)
    assert table.exit_code == 0
    assert "stands by" in table.stdout
    second.kill()
    first.stop()
    done = nodes.command("status", nodes.dsn, "--schema", nodes.schema)
    assert done.exit_code == 1
    assert "No node leads" in done.stdout


def test_the_leader_steps_down_for_the_node_that_is_asked(nodes: Nodes) -> None:
    """It stands by then, and can be asked to lead again; one that leads already is asked for nothing."""
    nodes.start(1)
    nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    epoch = nodes.ask("status")["epoch"]
    done = nodes.ask("step-down")
    assert (done["leader"], done["before"], done["epoch"]) == (2, 1, epoch + 1)
    assert done["seconds"] > 0
    nodes.wait_for({1: "stands by", 2: "leads"})
    assert nodes.ask("step-down", "--to", "1")["leader"] == 1
    nodes.wait_for({1: "leads", 2: "stands by"})
    already = nodes.ask("step-down", "--to", "1")
    assert (already["leader"], already["before"], already["epoch"]) == (1, 1, epoch + 2)


def test_what_cannot_be_is_refused_with_what_to_do(nodes: Nodes) -> None:
    """The refused cases: no standby, an unknown node, no leader, a schema that is no broker's."""
    first = nodes.start(1)
    assert "oncelog serve --storage DSN --node-id NUMBER" in nodes.refused("step-down")
    assert "there is no node 7; known ids: 1" in nodes.refused("step-down", "--to", "7")
    assert nodes.ask("status")["wanted"] is None
    first.stop()
    assert "no node leads" in nodes.refused("step-down")
    elsewhere = nodes.command("status", nodes.dsn, "--schema", "elsewhere")
    assert (elsewhere.exit_code, "name another one with --schema" in elsewhere.stderr) == (2, True)
    unreachable = nodes.command("status", "postgresql://somebody:secret@127.0.0.1:1/x")
    assert "is PostgreSQL running there?" in unreachable.stderr
    assert "secret" not in unreachable.stderr


def test_a_wish_that_is_not_fulfilled_in_time_is_withdrawn(nodes: Nodes) -> None:
    """A leader that stands still does not step down later, when the command has given up."""
    first = nodes.start(1, "oncelog.postgres.lease.ms=600000")
    nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    first.process.send_signal(signal.SIGSTOP)
    try:
        assert "is not asked to any more" in nodes.refused("step-down", "--timeout", "0.5")
        assert nodes.ask("status")["wanted"] is None
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert states_of(nodes.ask("status")) == {1: "leads", 2: "stands by"}


def _metrics(daemon: Daemon) -> dict[str, float]:
    text = ask(daemon, "/metrics")[2]
    return {name: float(value) for name, value in re.findall(r"^oncelog_(node_\w+) (\S+)$", text, re.MULTILINE)}


def test_metrics_and_readiness_show_who_leads_and_who_stands_by(nodes: Nodes) -> None:
    """The port is the same before and after a take-over, and a standby is as ready as a leader."""
    port = "oncelog.metrics.listen=127.0.0.1:0"
    first, second = nodes.start(1, port), nodes.start(2, port)
    nodes.wait_for({1: "leads", 2: "stands by"})
    assert [ask(daemon, "/readyz")[0] for daemon in (first, second)] == [200, 200]
    leads, stands_by = _metrics(first), _metrics(second)
    assert (leads["node_leads"], leads["node_takeovers"], "node_rounds_behind" in leads) == (1, 1, False)
    assert (stands_by["node_leads"], stands_by["node_takeovers"], stands_by["node_others"]) == (0, 0, 1)
    deadline = time.monotonic() + PATIENCE_S
    while _metrics(second)["node_rounds_behind"]:
        assert time.monotonic() < deadline
    nodes.ask("step-down")
    nodes.wait_for({1: "stands by", 2: "leads"})
    assert {each["address"] for each in second.events("metrics.ready")} == {
        second.events("metrics.ready")[0]["address"]
    }
    while _metrics(first).get("node_leads") != 0 or _metrics(second).get("node_leads") != 1:
        assert time.monotonic() < deadline
    assert (_metrics(first)["node_takeovers"], _metrics(second)["node_takeovers"]) == (1, 1)


def test_each_change_is_a_line_in_the_log_that_says_why(nodes: Nodes) -> None:
    """A line names the leader, since when and in which epoch it leads, and the cause: an operator's wish, or the end of
    the leader before.
    """
    first, second = nodes.start(1), nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    ready = first.await_event("broker.ready", 1)
    assert (ready["leader"], ready["message"]) == (1, "leads from now on: no broker has led before")
    (standing_by,) = second.events("broker.standing_by")
    assert (standing_by["leader"], standing_by["leader_epoch"]) == (1, ready["leader_epoch"])
    assert re.fullmatch(r"stands by for node 1, which has led for [\d.]+ s", standing_by["message"])
    nodes.ask("step-down")
    nodes.wait_for({1: "stands by", 2: "leads"})
    (stopping,) = first.events("broker.stopping")
    assert "an operator wants node 2 to lead" in stopping["message"]
    assert "leads from now on: node 1 has" in second.await_event("broker.ready", 1)["message"]
    second.kill()
    nodes.wait_for({1: "leads", 2: "gone"})
    again = first.await_event("broker.ready", 2)
    assert "leads from now on: node 2 has" in again["message"]
    assert again["takeover"] == 2


def test_a_node_that_has_slept_past_its_lease_says_that_it_has_lost_it(nodes: Nodes) -> None:
    first = nodes.start(1, "oncelog.postgres.lease.ms=3000")
    nodes.start(2, "oncelog.postgres.lease.ms=3000")
    nodes.wait_for({1: "leads", 2: "stands by"})
    first.process.send_signal(signal.SIGSTOP)
    try:
        nodes.wait_until(lambda status: status["leader"] == 2)
    finally:
        first.process.send_signal(signal.SIGCONT)
    nodes.wait_for({1: "stands by", 2: "leads"})
    (lost,) = first.events("lease.lost")
    assert "this node was suspended" in lost["message"]
    assert lost["led_seconds"] > 0
