"""What one sees of a query while it runs, and afterwards: progress, metrics in a file, the report."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client import TopicPartition
from oncelog.pipeline.progress import Progress, progress
from oncelog.pipeline.sink import Step, exactly_once
from tests.spark.test_source import new_topic, reading, write, write_aborted
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
STEPS = {each.value for each in Step}


@pytest.fixture
def metrics(spark: Any, tmp_path: Path) -> Iterator[Path]:
    from oncelog.pipeline.listening import MetricsFile

    listener = MetricsFile(tmp_path / "oncelog.prom")
    spark.streams.addListener(listener)
    yield tmp_path / "oncelog.prom"
    spark.streams.removeListener(listener)


def to_end(writer: Any) -> list[Progress]:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = [progress(each) for each in query.recentProgress if each["numInputRows"]]
    return [each for each in found if each is not None]


def written(path: Path, line: str) -> bool:
    """Whether the file has this line; Spark calls listeners a little later."""
    give_up_s = time.monotonic() + 30
    while time.monotonic() < give_up_s:
        if path.exists() and any(each.endswith(line) for each in path.read_text().splitlines()):
            return True
        time.sleep(0.05)
    return False


def forget(checkpoint: str, batch_id: int) -> None:
    """As if the driver had died before Spark noted that the batch was done."""
    for name in (f"{batch_id}", f".{batch_id}.crc"):
        Path(checkpoint, "commits", name).unlink()


@pytest.mark.parametrize("door", ["format", "exactly_once"])
def test_a_query_shows_what_it_reads_skips_and_publishes(
    spark: Any, daemon: Daemon, checkpoint: str, metrics: Path, tmp_path: Path, door: str
) -> None:
    topic, output = new_topic(daemon, 2), new_topic(daemon)
    write(daemon, topic, range(100))
    asyncio.run(write_aborted(daemon, topic))
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "checkpointLocation": checkpoint, "topic": output}

    def writer() -> Any:
        stream = reading(spark.readStream, daemon, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=60)
        rows = stream.select("key", "value").writeStream
        if door == "format":
            return rows.format("oncelog").options(**options)

        def publish(batch: Any, batch_id: int) -> None:
            with exactly_once(batch, batch_id, options) as once:
                once.to_topic(batch, output)

        return rows.option("checkpointLocation", checkpoint).foreachBatch(publish)

    first, second = to_end(writer())
    assert sum(each.sources[0].records for each in (first, second)) == 100
    assert sum(each.sources[0].aborted or 0 for each in (first, second)) == 1
    assert all((each.sources[0].bytes or 0) > 0 for each in (first, second))
    assert sum(first.sources[0].lag.values()) > sum(second.sources[0].lag.values()) == 0
    assert set(first.sources[0].lag) == {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    for each in (first, second):
        assert each.sink is not None
        assert (each.sink.published, each.sink.seconds.keys()) == (True, STEPS)
        assert sum(each.sink.outputs.values()) == each.sources[0].records
    assert written(metrics, "} 100") and written(metrics, "} 1")

    forget(checkpoint, 1)
    (again,) = to_end(writer())
    assert again.sink is not None
    assert (again.batch_id, again.sink.published) == (1, False)
    assert "sink_skipped_total" in metrics.read_text()

    result = CliRunner().invoke(main, ["spark", "report", checkpoint, "-b", daemon.bootstrap, "--json"])
    found = json.loads(result.stdout)
    assert [len(each["skipped"]) for each in found["batches"]] == [0, 1]
    assert [each["lag"] for each in found["batches"]] == [sum(first.sources[0].lag.values()), 0]
    assert [each["seconds"].keys() for each in found["batches"]] == [STEPS, STEPS]
    assert (found["source"]["committed"], found["source"]["aborted"]) == (100, 1)
    assert found["written"]["published"] == 100
    assert found["written"]["doubled_without_transactions"] == second.sources[0].records
