"""`oncelog cluster status` and `step-down`: what rows of the tables mean, and which node may be asked to lead."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.broker.storage.shared.tables import NO_NODE, Lease, NodeAddress, NodeRow, SeenNodes
from oncelog.cli import main
from oncelog.tools import nodes
from oncelog.tools.nodes import CannotStepDown, Cluster, hint_of, status_of, successor_for
from tests.support.requests.hostile import HOSTILE, require_harmless

LEADS = NodeRow(1, "one", (NodeAddress("PLAINTEXT", "host", 9092),))
STANDS_BY = NodeRow(2, "two", (), followed=7)
IS_BEHIND = NodeRow(3, "three", (), followed=5)
STARTS = NodeRow(4, "four", ())
GONE = NodeRow(5, "five", (), followed=9, is_over=True)
HELD = Lease(3, "one", 0, 9_500.0, is_attended=True, node_id=1, held_ms=61_000.0)


def cluster(*rows: NodeRow, lease: Lease = HELD, newest: int = 9) -> Cluster:
    return Cluster(lease, SeenNodes(rows, newest, NO_NODE))


def test_each_row_says_what_its_node_does_and_how_far_behind_it_is() -> None:
    status = status_of(cluster(LEADS, STANDS_BY, STARTS, GONE))
    found: list[dict[str, Any]] = status["nodes"]
    assert [(row["node_id"], row["state"], row["rounds_behind"]) for row in found] == [
        (1, "leads", None),
        (2, "stands by", 2),
        (4, "starts", None),
        (5, "gone", None),
    ]
    assert found[0]["addresses"] == ["PLAINTEXT://host:9092"]
    assert (status["leader"], status["epoch"], status["leading_seconds"], status["lease_left_seconds"]) == (
        *(1, 3, 61.0, 9.5),
    )


def test_who_has_had_the_lease_does_not_lead_once_it_is_over() -> None:
    status = status_of(cluster(LEADS, STANDS_BY, lease=HELD._replace(left_ms=0)))
    assert (status["leader"], status["owner"], status["leading_seconds"]) == (None, None, None)
    assert [row["state"] for row in status["nodes"]] == ["starts", "stands by"]


def test_an_earlier_start_of_the_leader_does_not_lead() -> None:
    """Its row is there until it is over, under the same id."""
    status = status_of(cluster(LEADS._replace(owner="before")))
    assert status["nodes"][0]["state"] == "starts"


def test_the_best_that_stands_by_is_the_one_that_has_followed_furthest() -> None:
    assert successor_for(cluster(LEADS, IS_BEHIND, STANDS_BY, STARTS, GONE), None) == 2


@pytest.mark.parametrize("to", [1, 2, 3])
def test_the_leader_and_each_that_stands_by_can_be_asked(to: int) -> None:
    assert successor_for(cluster(LEADS, STANDS_BY, IS_BEHIND), to) == to


REFUSALS: dict[str, tuple[Cluster, int | None, str]] = {
    "no leader": (cluster(STANDS_BY, lease=HELD._replace(left_ms=0)), None, "takes over by itself"),
    "no node leads": (cluster(STANDS_BY, lease=HELD._replace(node_id=NO_NODE)), None, "stop it instead"),
    "no standby": (cluster(LEADS, STARTS, GONE), None, "oncelog serve --storage DSN --node-id NUMBER"),
    "unknown": (cluster(LEADS, STANDS_BY), 7, "there is no node 7; known ids: 1, 2"),
    "gone": (cluster(LEADS, STANDS_BY, GONE), 5, "start it again"),
    "starting": (cluster(LEADS, STANDS_BY, STARTS), 4, "`oncelog cluster status` shows when it does"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_who_cannot_lead_is_refused_with_what_to_do(name: str) -> None:
    found, to, expected = REFUSALS[name]
    with pytest.raises(CannotStepDown, match=expected):
        successor_for(found, to)


def test_the_hint_is_what_an_operator_may_want_to_do() -> None:
    assert hint_of(cluster(LEADS, STANDS_BY)) == ""
    assert "No node stands by" in hint_of(cluster(LEADS, GONE))
    assert "no connection" in hint_of(cluster(LEADS, STANDS_BY, lease=HELD._replace(is_attended=False)))
    over = HELD._replace(left_ms=0)
    assert "in a moment" in hint_of(cluster(STANDS_BY, lease=over))
    assert "--node-id" in hint_of(cluster(GONE, lease=over))


@pytest.mark.parametrize("name", HOSTILE)
def test_what_another_node_has_written_stays_in_its_row(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of its host and of its listeners: neither steers a terminal, nor makes a line of its own."""
    hostile = HOSTILE[name]
    row = LEADS._replace(owner=hostile, addresses=(NodeAddress(hostile, hostile, 9092),))
    found = cluster(row, STANDS_BY, lease=HELD._replace(owner=hostile))

    class Tables:
        async def look(self) -> Cluster:
            return found

    @asynccontextmanager
    async def tables(_dsn: str, _schema: str) -> AsyncIterator[Tables]:
        yield Tables()

    monkeypatch.setattr(nodes, "nodes_tables", tables)
    shown = CliRunner().invoke(main, ["cluster", "status", "postgresql://host/database"])
    assert shown.exit_code == 0, shown.output
    require_harmless(shown.output)
    assert len(shown.output.splitlines()) == 13
    as_json = CliRunner().invoke(main, ["cluster", "status", "postgresql://host/database", "--json"])
    require_harmless(as_json.output)
    assert json.loads(as_json.output)["owner"] == hostile
