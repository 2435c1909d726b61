"""The ledger as plain Structured Streaming: four queries, each with a checkpoint of its own.

Owns: the session, what is read from where and written to where, and the command line. Does not own: what is computed
(`transforms`, `records`). Invariant: a query that is stopped at any moment and started again on its checkpoint
continues as if nothing had happened; to recover, run this program again.

`python -m oncelog.pipeline.ledger.job --help`, or the same file with `spark-submit`.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from oncelog.pipeline.ledger import records, transforms

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": STATE_STORE,  # transformWithState knows no other
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where a ledger reads and writes. Directories are URIs of any file system that Spark's Hadoop knows."""

    brokers: str
    checkpoint: str
    """The parent of each query's checkpoint: shared by driver and executors (a cluster needs HDFS, S3 or the like)."""
    table: str
    """The directory of the Parquet table of purchases."""
    prefix: str = ""
    """The prefix of topic names."""
    rows_per_batch: int | None = None

    def topic(self, name: str) -> str:
        return self.prefix + name

    def read(self, spark: Any, topic: str) -> Any:
        reader = spark.readStream.format("oncelog").options(
            **{
                "kafka.bootstrap.servers": self.brokers,
                "subscribe": self.topic(topic),
                "startingOffsets": "earliest",
            }
        )
        if self.rows_per_batch is not None:
            reader = reader.option("maxOffsetsPerTrigger", str(self.rows_per_batch))
        return reader.load()

    def write(self, rows: Any, name: str) -> Any:
        writer = rows.writeStream.format("oncelog").option("kafka.bootstrap.servers", self.brokers)
        return self._stream(writer, name)

    def write_table(self, rows: Any, name: str) -> Any:
        return self._stream(rows.writeStream.format("parquet").option("path", self.table), name)

    def _stream(self, writer: Any, name: str) -> Any:
        return writer.queryName(name).outputMode("append").option("checkpointLocation", f"{self.checkpoint}/{name}")


def intake(spark: Any, ledger: Ledger) -> Any:
    checked = transforms.checked(ledger.read(spark, "purchases"))
    rows = records.purchase_records(checked, ledger.topic("accepted"), ledger.topic("rejected"))
    return ledger.write(rows, "intake")


def balances(spark: Any, ledger: Ledger) -> Any:
    rows = transforms.balances(records.purchases_of(ledger.read(spark, "accepted")))
    return ledger.write(records.balance_records(rows, ledger.topic("balances"), ledger.topic("alerts")), "balances")


def sessions(spark: Any, ledger: Ledger) -> Any:
    rows = transforms.sessions(records.purchases_of(ledger.read(spark, "accepted")))
    return ledger.write(records.session_records(rows, ledger.topic("sessions")), "sessions")


def table(spark: Any, ledger: Ledger) -> Any:
    return ledger.write_table(records.purchases_of(ledger.read(spark, "accepted")), "table")


Query = Callable[[Any, Ledger], Any]
STAGES: tuple[tuple[Query, ...], ...] = ((intake,), (balances, sessions, table))
"""The second stage reads what the first has written."""


def run_once(spark: Any, ledger: Ledger) -> list[Any]:
    """Process what is there, in as many batches as it takes. Returns the queries. Raises StreamingQueryException."""
    queries = []
    for stage in STAGES:
        started = [query(spark, ledger).trigger(availableNow=True).start() for query in stage]
        for query in started:
            query.awaitTermination()
        queries += started
    return queries


def run(spark: Any, ledger: Ledger) -> None:
    """Process what comes, until a query fails. Raises StreamingQueryException: run the program again."""
    for query in (query for stage in STAGES for query in stage):
        query(spark, ledger).start()
    spark.streams.awaitAnyTermination()


def start_session(master: str | None) -> Any:
    """Start the session; `master` is None where spark-submit sets it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("ledger")
    if master is not None:
        builder = builder.master(master)
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Balances, sessions and alerts from a topic of purchases.")
    parser.add_argument("--master", help="local[2] or spark://host:7077; leave it out with spark-submit")
    parser.add_argument("--brokers", required=True, help="host:port,host:port")
    parser.add_argument("--checkpoint", required=True, help="a URI, on a cluster of a shared file system")
    parser.add_argument("--table", required=True, help="a URI: the Parquet table of purchases")
    parser.add_argument("--prefix", default="", help="of the names of topics")
    parser.add_argument("--rows-per-batch", type=int)
    parser.add_argument("--once", action="store_true", help="end when everything that is there is processed")
    options = parser.parse_args(arguments)
    ledger = Ledger(options.brokers, options.checkpoint, options.table, options.prefix, options.rows_per_batch)
    spark = start_session(options.master)
    try:
        (run_once if options.once else run)(spark, ledger)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
