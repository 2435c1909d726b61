"""The ledger as a Spark Declarative Pipeline: the same functions as `job.py`, declared instead of started.

`spark-pipelines run` finds what depends on what, runs each flow until everything that is there is processed, and keeps
the checkpoints below the storage of the specification.
"""

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from oncelog.pipeline.ledger import records, transforms

spark = SparkSession.active()
BROKERS = spark.conf.get("spark.ledger.brokers")
PREFIX = spark.conf.get("spark.ledger.prefix")
SOURCE = {
    "kafka.bootstrap.servers": BROKERS,
    "subscribe": f"{PREFIX}purchases",
    "startingOffsets": "earliest",
}

dp.create_sink("topics", "oncelog", {"kafka.bootstrap.servers": BROKERS})


def read_checked() -> Any:
    return transforms.checked(spark.readStream.format("oncelog").options(**SOURCE).load())


def read_accepted() -> Any:
    """Return the accepted purchases for a transformation that has state. Spark 4.3 analyses what is below withWatermark
    and transformWithState while the pipeline is still being declared, when it cannot find the tables and views of the
    pipeline itself."""
    return transforms.accepted(read_checked())


@dp.temporary_view
def checked() -> Any:
    return read_checked()


@dp.table
def purchases() -> Any:
    return transforms.accepted(spark.readStream.table("checked"))


@dp.append_flow(target="topics")
def purchase_records() -> Any:
    return records.purchase_records(spark.readStream.table("checked"), f"{PREFIX}accepted", f"{PREFIX}rejected")


@dp.append_flow(target="topics")
def balance_records() -> Any:
    balances = transforms.balances(read_accepted())
    return records.balance_records(balances, f"{PREFIX}balances", f"{PREFIX}alerts")


@dp.append_flow(target="topics")
def session_records() -> Any:
    return records.session_records(transforms.sessions(read_accepted()), f"{PREFIX}sessions")


@dp.materialized_view
def months() -> Any:
    by_month = spark.read.table("purchases").groupBy(f.date_format("at", "yyyy-MM").alias("month"))
    return by_month.agg(f.sum("cents").alias("cents"), f.count("*").alias("purchases"))
