"""A program for Spark Connect that writes with `exactly_once`; its test runs it in its own process, server and all.

    python -m tests.support.spark.connect_job DIRECTORY BOOTSTRAP

It reads the topic `in`, four records a batch, and writes to the topic `out` and a table below DIRECTORY. Its first run
fails after the transaction of batch 1 and before the table has it; then it runs to the end. It prints what happened as
JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

from oncelog.pipeline.java import QUICK_START, home_without_archive, prepare_environment

HIT = 1
GROUP = "lag-connect"


def session(directory: Path) -> Any:
    prepare_environment(directory)
    home_without_archive(directory)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote("local[2]")
    for name, value in {**QUICK_START, "spark.sql.shuffle.partitions": "2"}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def publish(options: dict[str, str], table: str, has_failed: Path, batch: Any, batch_id: int) -> None:
    """Runs in a process of the server."""
    from oncelog.pipeline.sink import Step, exactly_once

    async def fail_once(step: Any, moment: str) -> None:
        if (step, moment, batch_id) == (Step.END, "after", HIT) and not has_failed.exists():
            has_failed.touch()
            raise ZeroDivisionError

    with exactly_once(batch, batch_id, options, on_step=fail_once) as once:
        once.to_topic(batch.select("value"), "out").to_delta(batch.selectExpr("cast(value as string) as value"), table)


def main(directory: Path, bootstrap: str) -> None:
    spark = session(directory)
    reach = {"kafka.bootstrap.servers": bootstrap}
    reading = {**reach, "subscribe": "in", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    rows = spark.readStream.format("oncelog").options(**reading).load()
    ends: list[str] = []

    def run(checkpoint: Path, function: Any = None, **options: str) -> None:
        writer = rows.writeStream.option("checkpointLocation", str(checkpoint))
        if function is not None:
            writer = writer.foreachBatch(function)
        else:
            writer = writer.format("oncelog").options(**reach, **options)
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
            ends.append("ended")
        except Exception as error:  # Spark's own
            ends.append(str(error))

    def function(checkpoint: Path) -> Any:
        options = {**reach, "checkpointLocation": str(checkpoint), "commitGroup": GROUP}
        table, has_failed = str(directory / "table"), directory / "has-failed"
        return lambda batch, batch_id: publish(options, table, has_failed, batch, batch_id)

    run(directory / "checkpoint", function(directory / "checkpoint"))
    run(directory / "checkpoint", function(directory / "checkpoint"))
    run(directory / "another", function(directory / "checkpoint"))
    run(directory / "by-format", topic="by-format")
    count = spark.read.format("oncelog").options(**reach, subscribe="out").load().count()
    print(json.dumps({"ends": ends, "count": count}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
