"""A checkpoint on a file system of Hadoop's that only Java can read: both doors of the sink, and `oncelog spark`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.pipeline.sink import exactly_once
from oncelog.pipeline.sink.checkpoint import Checkpoint, CheckpointError
from tests.spark.scenes import BATCHES, create, expected, make_input, run_to_end, stream, values
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("door", [pytest.param("format", marks=pytest.mark.slow), "foreachBatch"])
def test_a_batch_that_runs_again_is_known_by_a_checkpoint_that_only_java_can_read(
    spark: Any, daemon: Daemon, viewfs: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, door: str
) -> None:
    create(daemon, door)
    source = make_input(tmp_path / "in")
    location = f"{viewfs}/{tmp_path.relative_to(tmp_path_factory.getbasetemp())}/checkpoint"
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "topic": door, "checkpointLocation": location}
    published: list[bool] = []

    def each(batch: Any, batch_id: int) -> None:
        with exactly_once(batch, batch_id, options) as once:
            once.to_topic(batch)
        assert once.outcome is not None
        published.append(once.outcome.published)

    def run() -> None:
        writer = stream(spark, source).writeStream.options(**options)
        run_to_end(writer.format("oncelog") if door == "format" else writer.foreachBatch(each))

    run()
    last = f"offsets/{BATCHES - 1}"
    for session in (spark, None):
        found = Checkpoint(location, session).modified_ms(last)
        # Hadoop's local file system returns whole seconds where Java's does.
        assert found is not None and found // 1000 == int((tmp_path / "checkpoint" / last).stat().st_mtime)
    for name in (str(BATCHES - 1), f".{BATCHES - 1}.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    done = CliRunner().invoke(main, ["spark", "state", location, "-b", daemon.bootstrap, "--json"])
    state = json.loads(done.output)
    assert (done.exit_code, state["last_planned"], state["last_done"]) == (0, BATCHES - 1, BATCHES - 2)
    assert state["next_start"] == f"batch {BATCHES - 1} is run again and skipped: it is applied"
    run()
    assert values(daemon, door) == expected()
    assert published == ([] if door == "format" else [True] * BATCHES + [False])


def test_a_checkpoint_that_is_not_there_is_an_error_with_a_sentence(spark: Any, viewfs: str) -> None:
    for session in (spark, None):
        with pytest.raises(CheckpointError, match=r"nowhere/metadata.*(does not exist|No such file)"):
            Checkpoint(f"{viewfs}/nowhere", session).query_id()
        with pytest.raises(CheckpointError, match="cannot list viewfs://elsewhere"):
            Checkpoint("viewfs://elsewhere/run", session).batches("offsets")


def test_every_reader_knows_when_a_file_was_written(
    spark: Any, viewfs: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")
    location = f"{viewfs}/{tmp_path.relative_to(tmp_path_factory.getbasetemp())}"
    readers = [Checkpoint(str(tmp_path)), Checkpoint(location, spark), Checkpoint(location)]
    (told,) = {each.modified_ms("commits/0") for each in readers}
    assert told == (tmp_path / "commits" / "0").stat().st_mtime_ns // 1_000_000
    assert [each.modified_ms("commits/1") for each in readers] == [None] * 3
