"""The PySpark job: committed purchases in, totals out, exactly once, restarted from its checkpoint as often as needed.

Owns: the Spark session, the query, the driver's life. `--kill-after N` makes the driver die, as by kill -9, after batch
N is committed in the broker and before Spark records that: the worst possible moment.
"""

import argparse
import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from oncelog.client import Admin
from oncelog.pipeline.demo.events import emit
from oncelog.pipeline.demo.transform import totals_by_key
from oncelog.pipeline.java import java_home
from oncelog.pipeline.sink import Step, exactly_once

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


def records_of(totals: Any) -> Any:
    """A micro-batch of totals as records: the newest value of a key is its total."""
    return totals.selectExpr("total_key as key", "to_json(struct(cents, purchases)) as value")


async def make_output(bootstrap: str, topic: str) -> None:
    """The sink creates no topic: a mistyped name would swallow its results."""
    async with Admin(bootstrap) as admin:
        await admin.create_topics(topic, exist_ok=True)


def run(arguments: argparse.Namespace) -> None:
    """One life of the driver: until everything stable at its start, and what arrives meanwhile, is processed."""
    checkpoint: Path = arguments.checkpoint
    java = prepare_environment(arguments.work)
    session = start_session(arguments.work)
    emit("session", spark=session.version, java=java)
    asyncio.run(make_output(arguments.bootstrap, arguments.output))

    def publish(totals: Any, batch_id: int) -> None:
        async def on_step(step: Step, moment: str) -> None:
            if (step, moment, batch_id) == (Step.END, "after", arguments.kill_after):
                emit("dying", batch=batch_id)
                os.killpg(os.getpgid(0), signal.SIGKILL)  # the JVM dies with its driver

        with exactly_once(totals, batch_id, sink_options, on_step=on_step) as once:
            once.to_topic(records_of(totals), arguments.output)
        outcome = once.outcome
        if outcome is not None:
            emit(
                "published" if outcome.published else "skipped",
                batch=batch_id,
                records=outcome.records if outcome.published else 0,
                producer_epoch=outcome.producer_epoch,
            )

    sink_options = {"kafka.bootstrap.servers": arguments.bootstrap, "checkpointLocation": str(checkpoint)}
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
        .foreachBatch(publish)
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
