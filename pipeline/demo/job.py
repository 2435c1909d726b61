"""The PySpark job: committed purchases in, totals out, exactly once, restarted from its checkpoint as often as needed.

Owns: the Spark session, the query, the driver's life. `--kill-after N` makes the driver die, as by kill -9, after batch
N is committed in the broker and before Spark records that: the worst possible moment.
"""

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from oncelog.pipeline.demo.events import emit
from oncelog.pipeline.demo.transform import totals_by_key
from oncelog.pipeline.java import java_home
from oncelog.pipeline.sink import Outcome, Row, TransactionalSink

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


def prepare_environment(work: Path) -> str:
    """Set up the environment that Spark reads; returns where its Java comes from. Raises JavaMissing."""
    home, origin = java_home(work)
    os.environ["JAVA_HOME"] = str(home)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # otherwise Spark's workers run the first `python3` on the PATH
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    return origin


def start_session(work: Path) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("oncelog-totals")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    session = builder.config("spark.sql.warehouse.dir", str(work / "warehouse")).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def output_rows(batch: Any) -> list[Row]:
    """A micro-batch of totals as records: the newest value of a key is its total."""
    table = batch.toArrow()
    columns = [table.column(name).to_pylist() for name in ("total_key", "cents", "purchases")]
    return [
        (key, json.dumps({"cents": cents, "purchases": purchases}, separators=(",", ":")).encode())
        for key, cents, purchases in zip(*columns, strict=True)
    ]


def run(arguments: argparse.Namespace) -> None:
    """One life of the driver: until everything stable at its start, and what arrives meanwhile, is processed."""
    checkpoint: Path = arguments.checkpoint
    java = prepare_environment(arguments.work)
    session = start_session(arguments.work)
    emit("session", spark=session.version, java=java)

    def on_outcome(outcome: Outcome) -> None:
        emit(
            "published" if outcome.published else "skipped",
            batch=outcome.batch_id,
            records=outcome.records,
            producer_epoch=outcome.producer_epoch,
        )

    def after_commit(batch_id: int) -> None:
        if batch_id == arguments.kill_after:
            emit("dying", batch=batch_id)
            os.killpg(os.getpgid(0), signal.SIGKILL)  # the JVM dies with its driver

    sink = TransactionalSink(arguments.bootstrap, arguments.output, checkpoint, on_outcome, after_commit)
    records = (
        session.readStream.format("oncelog")
        .option("kafka.bootstrap.servers", arguments.bootstrap)
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(arguments.max_offsets))
        .load()
    )
    query = (
        totals_by_key(records)
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, batch_id: sink.apply(batch_id, output_rows(batch)))
        .start()
    )
    query.processAllAvailable()
    query.stop()
    emit("done")
    session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description="Total committed purchases, exactly once.")
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--max-offsets", type=int, default=60_000)
    parser.add_argument("--kill-after", type=int, default=-1)
    run(parser.parse_args())


if __name__ == "__main__":
    main()
