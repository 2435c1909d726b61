"""`oncelog spark state`, `repair` and `forget`: the marker beside the checkpoint, and what a person decides."""

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.pipeline.sink.marker import Marker, MarkerMismatch
from oncelog.pipeline.sink.plan import run_sink_id
from oncelog.pipeline.sink.publish import SinkSettings, publish
from tests.support.processes.daemon import Daemon
from tests.support.spark.query import Query


@pytest.fixture
def query(daemon: Daemon, tmp_path: Path) -> Query:
    return Query(daemon.bootstrap, tmp_path / "checkpoint")


def test_each_state_between_checkpoint_and_marker_has_its_sentence(query: Query) -> None:
    assert query.state()["next_start"] == "batch 0 is planned and published"
    query.run(0, 1)
    assert query.state()["next_start"] == "batch 2 is planned and published"
    query.plan(2)
    assert query.state()["next_start"] == "batch 2 is run again and published"
    query.publish(2)
    state = query.state()
    assert state["next_start"] == "batch 2 is run again and skipped: it is applied"
    assert (state["last_planned"], state["last_done"], state["marker"]["batch_id"]) == (2, 1, 2)
    query.plan(2, "other offsets")
    code, text = query.call("state")
    assert (code, "refused: batch 2 was applied with other source offsets" in text) == (1, True)


def test_a_lost_marker_is_set_again(query: Query) -> None:
    query.run(0, 1, 2)
    assert query.call("repair", "--forget", "--yes")[0] == 0
    assert "there is no marker" in query.state()["next_start"]
    query.plan(3)
    with pytest.raises(MarkerMismatch):
        query.publish(3)
    code, text = query.call("repair", "--applied", "2", "--yes", "--json")
    assert (code, json.loads(text)["is_consistent"]) == (0, True)
    assert query.publish(3)


def test_repair_asks_and_a_no_changes_nothing(query: Query) -> None:
    query.run(0, 1)
    code, _ = query.call("repair", "--applied", "0", typed="n\n")
    assert (code, query.state()["marker"]["batch_id"]) == (2, 1)
    code, _ = query.call("repair", "--applied", "0", typed="y\n")
    assert (code, query.state()["marker"]["batch_id"]) == (0, 0)


def test_one_of_the_two_repairs_is_needed(query: Query) -> None:
    assert query.call("repair", "--yes")[0] == 2
    assert query.call("repair", "--forget", "--applied", "1", "--yes")[0] == 2


def test_a_directory_that_is_no_checkpoint_is_named(daemon: Daemon, tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["spark", "state", str(tmp_path / "none"), "-b", daemon.bootstrap])
    assert result.exit_code == 2
    assert "cannot read" in result.stderr


def forget(daemon: Daemon, *arguments: str, typed: str | None = None) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["spark", "forget", "-b", daemon.bootstrap, *arguments], input=typed)
    return result.exit_code, result.output


def test_a_batch_write_is_remembered_until_it_is_forgotten_by_its_id_or_its_age(daemon: Daemon, query: Query) -> None:
    """Streams are left alone, whatever their age."""

    def write(run_id: str) -> bool:
        settings = SinkSettings(daemon.bootstrap, run_sink_id(run_id, "totals"))
        return asyncio.run(publish(settings, Marker(0, topics={"totals": "totals"}), [])).published

    query.run(0, 1)
    assert [write(name) for name in ("monday", "tuesday", "tuesday")] == [True, True, False]
    listed = json.loads(forget(daemon, "--json")[1])
    assert [each["run_id"] for each in listed] == ["monday", "tuesday"]
    assert forget(daemon, "--run-id", "sunday", "--yes")[0] == 2
    assert forget(daemon, "--older-than", "1", "--yes") == (0, "no batch write is 1 days old\n")
    assert forget(daemon, "--run-id", "monday", typed="n\n")[0] == 2
    assert not write("monday")
    assert forget(daemon, "--run-id", "monday", typed="y\n")[0] == 0
    assert [write("monday"), write("tuesday")] == [True, False]
    assert forget(daemon, "--older-than", "0", "--yes")[0] == 0
    assert forget(daemon) == (0, "no batch write is remembered\n")
    assert query.state()["marker"]["batch_id"] == 1
