"""`commitGroup`: a group's offsets say where a query is, to every client of Kafka, and are moved with its batches."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oncelog.client.blocking.clients import Producer
from oncelog.pipeline.sink import publisher
from tests.spark.scenes import create, group_offsets, values
from tests.support.processes.daemon import Daemon

pytestmark = pytest.mark.spark
BEHIND = 4
"""The most offsets of a batch."""


def write(daemon: Daemon, topic: str, count: int) -> None:
    with Producer(daemon.bootstrap) as producer:
        for number in range(count):
            producer.send_soon(topic, b"%d" % number, partition=0)
        producer.flush()


def committed(daemon: Daemon, group: str) -> int | None:
    """The group's offset of the only partition that is written."""
    return group_offsets(daemon, group).get(0)


def reading(spark: Any, daemon: Daemon, topic: str, name: str = "oncelog", **more: str) -> Any:
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "subscribe": topic, "startingOffsets": "earliest", **more}
    rows = spark.readStream.format(name).options(**options, maxOffsetsPerTrigger=str(BEHIND)).load()
    return rows.selectExpr("cast(value as string) as value")


def run(writer: Any, checkpoint: Path) -> None:
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def through_the_format(rows: Any, options: dict[str, str]) -> Any:
    return rows.writeStream.format("oncelog").options(**options)


def through_foreach_batch(rows: Any, options: dict[str, str]) -> Any:
    return rows.writeStream.foreachBatch(publisher(options))


@pytest.mark.parametrize("sink", [through_the_format, through_foreach_batch])
@pytest.mark.parametrize("source", ["oncelog", "kafka"])
def test_the_sink_moves_the_offsets_with_each_batch_also_one_that_is_run_again(
    spark: Any, daemon: Daemon, tmp_path: Path, sink: Callable[..., Any], source: str, request: pytest.FixtureRequest
) -> None:
    if source == "kafka":
        request.getfixturevalue("kafka_connector")
    name = f"{sink.__name__.replace('_', '-')}-{source}"
    create(daemon, f"{name}-in", f"{name}-out")
    checkpoint = tmp_path / "checkpoint"
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "checkpointLocation": str(checkpoint)}
    options |= {"topic": f"{name}-out", "commitGroup": f"lag-{name}"}
    for count in (2 * BEHIND + 1, 2):
        write(daemon, f"{name}-in", count)
        run(sink(reading(spark, daemon, f"{name}-in", source), options), checkpoint)
    assert committed(daemon, f"lag-{name}") == 2 * BEHIND + 3
    last = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    for left in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / left).unlink()
    run(sink(reading(spark, daemon, f"{name}-in", source), options), checkpoint)
    assert committed(daemon, f"lag-{name}") == 2 * BEHIND + 3
    assert sum(values(daemon, f"{name}-out").values()) == 2 * BEHIND + 3


def test_a_query_that_reads_no_kafka_has_no_offsets_to_commit(spark: Any, daemon: Daemon, tmp_path: Path) -> None:
    create(daemon, "rates")
    options = {"kafka.bootstrap.servers": daemon.bootstrap, "commitGroup": "lag-rates", "topic": "rates"}
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with pytest.raises(Exception, match="no source of this query reads Kafka"):
        run(through_the_format(rows.selectExpr("cast(value as string) as value"), options), tmp_path / "checkpoint")
    assert not values(daemon, "rates")


def test_the_source_moves_the_offsets_behind_each_batch_that_is_done_and_the_last(
    spark: Any, daemon: Daemon, tmp_path: Path
) -> None:
    """The source's own option does so in a query without this sink. A batch that fails moves nothing."""
    create(daemon, "by-source-in")
    write(daemon, "by-source-in", 2 * BEHIND + 1)
    seen: list[int | None] = []

    def look(batch: Any, batch_id: int) -> None:
        seen.append(committed(daemon, "lag-by-source"))
        if batch_id == 2 and len(seen) == 3:
            raise ZeroDivisionError

    rows = reading(spark, daemon, "by-source-in", commitGroup="lag-by-source")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        run(rows.writeStream.foreachBatch(look), tmp_path / "checkpoint")
    assert seen == [None, BEHIND, 2 * BEHIND] and committed(daemon, "lag-by-source") == 2 * BEHIND
    run(rows.writeStream.foreachBatch(look), tmp_path / "checkpoint")
    assert seen[3:] == [2 * BEHIND] and committed(daemon, "lag-by-source") == 2 * BEHIND + 1
