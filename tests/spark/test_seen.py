"""What one sees of a query while it runs, and afterwards: progress, metrics in a file, the report."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.cli import main
from oncelog.client import TopicPartition
from oncelog.client.blocking.clients import Producer
from oncelog.pipeline.progress import Progress, progress
from oncelog.pipeline.prometheus import Metrics
from oncelog.pipeline.sink import Step, exactly_once
from tests.spark.test_source import new_topic, reading, write, write_aborted
from tests.support.patience import PATIENCE_S
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
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


def lines(spark: Any, metrics: Path) -> list[str]:
    """Return the file's lines, once Spark has called its listeners."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return metrics.read_text(encoding="utf-8").splitlines()


class NoticingMetrics(Metrics):
    """Notices the first idle progress that has something waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.noticed = Event()
        self.found: Progress | None = None

    def add_idle(self, found: Progress) -> None:
        super().add_idle(found)
        if found.sources[0].waiting:
            self.found = found
            self.noticed.set()


def test_an_idle_query_shows_what_waits_behind_an_open_transaction(
    spark: Any, daemon: Daemon, checkpoint: str, tmp_path: Path
) -> None:
    """No batch comes: its lag is 0, and the file for Prometheus is written all the same."""
    from oncelog.pipeline.listening import MetricsFile

    topic, metrics = new_topic(daemon), NoticingMetrics()
    listener = MetricsFile(tmp_path / "idle.prom", metrics)
    spark.streams.addListener(listener)
    stream = reading(spark.readStream, daemon, subscribe=topic, startingOffsets="earliest")
    hanging = Producer(daemon.bootstrap, transactional_id=topic, transaction_timeout_ms=600_000)
    with hanging as producer, producer.transaction() as transaction:
        transaction.send(topic, b"open")
        write(daemon, topic, range(100))
        query = stream.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            assert metrics.noticed.wait(PATIENCE_S)
        finally:
            query.stop()
            spark.streams.removeListener(listener)
    assert metrics.found is not None
    (source,) = metrics.found.sources
    (waiting,) = source.waiting
    assert (sum(source.lag.values()), source.records) == (0, 0)
    assert (waiting.records, waiting.transactional_id) == (101, topic)
    assert waiting.command == f"oncelog txn fence {topic}"


def forget(checkpoint: str, batch_id: int) -> None:
    """Delete a commit, as if the driver had died before Spark noted that the batch was done."""
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
    options["commitGroup"] = output  # so that every step is one of them

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
    counted = lines(spark, metrics)
    for name, value in (("source_records", 100), ("source_aborted_records", 1), ("sink_published", 2)):
        assert [each.split()[-1] for each in counted if each.startswith(f"oncelog_spark_{name}_total")] == [f"{value}"]

    forget(checkpoint, 1)
    (again,) = to_end(writer())
    assert again.sink is not None
    assert (again.batch_id, again.sink.published) == (1, False)
    skipped = [
        each.split()[-1] for each in lines(spark, metrics) if each.startswith("oncelog_spark_sink_skipped_total")
    ]
    assert skipped == ["1"]

    result = CliRunner().invoke(main, ["spark", "report", checkpoint, "-b", daemon.bootstrap, "--json"])
    found = json.loads(result.stdout)
    assert [len(each["skipped"]) for each in found["batches"]] == [0, 1]
    assert [each["lag"] for each in found["batches"]] == [sum(first.sources[0].lag.values()), 0]
    assert [each["seconds"].keys() for each in found["batches"]] == [STEPS, STEPS]
    assert (found["source"]["committed"], found["source"]["aborted"]) == (100, 1)
    assert found["written"]["published"] == 100
    assert found["written"]["doubled_without_transactions"] == second.sources[0].records
