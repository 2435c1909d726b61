"""Several nodes over one schema of PostgreSQL: what the command line shows of them, and what it can ask."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.patience import PATIENCE_S
from tests.support.postgres import Postgres, started

pytest.importorskip("asyncpg", reason="asyncpg is not installed")
_schemas = count()
_ROOT = Path(__file__).parent.parent.parent


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

    def command(
        self, name: str, *arguments: str, environ: dict[str, str] | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """`oncelog cluster NAME`."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "oncelog", "cluster", name, *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env={**os.environ, "PYTHONPATH": str(_ROOT), **(environ or {})},
        )

    def ask(self, name: str, *arguments: str) -> Any:
        done = self.command(name, self.dsn, "--schema", self.schema, "--json", *arguments)
        assert done.stderr == "", done.stderr
        return json.loads(done.stdout)

    def refused(self, name: str, *arguments: str) -> str:
        done = self.command(name, self.dsn, "--schema", self.schema, *arguments)
        assert done.returncode == 2, done
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    @property
    def states(self) -> dict[int, str]:
        return {row["node_id"]: row["state"] for row in self.ask("status")["nodes"]}

    def wait_for(self, wanted: dict[int, str]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (found := self.states) != wanted:
            assert time.monotonic() < deadline, found


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    yield from started()


@pytest.fixture
def nodes(postgres: Postgres, tmp_path: Path) -> Iterator[Nodes]:
    found = Nodes(postgres.dsn, tmp_path)
    yield found
    for daemon in found.daemons.values():
        daemon.stop()


def test_status_shows_who_leads_who_stands_by_and_who_has_gone(nodes: Nodes) -> None:
    """In a table for people, as JSON for programs, and from wherever a broker takes where its records are."""
    first = nodes.start(1)
    alone = nodes.ask("status")
    assert (alone["leader"], alone["attended"], [row["state"] for row in alone["nodes"]]) == (1, True, ["leads"])
    assert 0 < alone["lease_left_seconds"] <= 10
    assert alone["leading_seconds"] >= 0
    second = nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    found = nodes.ask("status")
    assert [row["addresses"] for row in found["nodes"]] == [
        [f"PLAINTEXT://{daemon.bootstrap}"] for daemon in (first, second)
    ]
    assert found["nodes"][1]["rounds_behind"] == 0
    environ = {"KAFKA_ONCELOG_POSTGRES_DSN": nodes.dsn, "KAFKA_ONCELOG_POSTGRES_SCHEMA": nodes.schema}
    table = nodes.command("status", environ=environ)
    assert table.returncode == 0
    assert "stands by" in table.stdout
    second.kill()
    first.stop()
    done = nodes.command("status", nodes.dsn, "--schema", nodes.schema)
    assert done.returncode == 1
    assert "Nobody leads" in done.stdout


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
    """No standby, an unknown node, nobody who leads; no broker's schema."""
    first = nodes.start(1)
    assert "oncelog serve --storage DSN --node-id NUMBER" in nodes.refused("step-down")
    assert "there is no node 7; known ids: 1" in nodes.refused("step-down", "--to", "7")
    assert nodes.ask("status")["wanted"] is None
    first.stop()
    assert "nobody leads" in nodes.refused("step-down")
    elsewhere = nodes.command("status", nodes.dsn, "--schema", "elsewhere")
    assert (elsewhere.returncode, "name another one with --schema" in elsewhere.stderr) == (2, True)
    unreachable = nodes.command("status", "postgresql://somebody:secret@127.0.0.1:1/x")
    assert "is PostgreSQL running there?" in unreachable.stderr
    assert "secret" not in unreachable.stderr


def test_a_wish_that_is_not_fulfilled_in_time_is_withdrawn(nodes: Nodes) -> None:
    """A leader that stands still does not step down later, when nobody waits for it any more."""
    first = nodes.start(1, "oncelog.postgres.lease.ms=600000")
    nodes.start(2)
    nodes.wait_for({1: "leads", 2: "stands by"})
    first.process.send_signal(signal.SIGSTOP)
    try:
        assert "is not asked to any more" in nodes.refused("step-down", "--timeout", "0.5")
        assert nodes.ask("status")["wanted"] is None
    finally:
        first.process.send_signal(signal.SIGCONT)
    assert nodes.states == {1: "leads", 2: "stands by"}
