"""The ledger as a Spark Declarative Pipeline: the same functions as `job.py`, declared instead of started.

`spark-pipelines run` finds what depends on what, runs each flow until everything that is there is processed, and keeps
the checkpoints below the storage of the specification. `spark` is put here by it.
"""

from typing import Any

from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from oncelog.pipeline.ledger import records, transforms

spark: Any = SparkSession.active()
BROKERS = spark.conf.get("spark.ledger.brokers")
PREFIX = spark.conf.get("spark.ledger.prefix", "")

dp.create_sink("topics", "oncelog", {"kafka.bootstrap.servers": BROKERS})


@dp.temporary_view
def checked() -> Any:
    options = {
        "kafka.bootstrap.servers": BROKERS,
        "subscribe": f"{PREFIX}purchases",
        "startingOffsets": "earliest",
    }
    return transforms.checked(spark.readStream.format("oncelog").options(**options).load())


@dp.table
def purchases() -> Any:
    return transforms.accepted(spark.readStream.table("checked"))


@dp.append_flow(target="topics")
def checked_records() -> Any:
    return records.purchase_records(spark.readStream.table("checked"), f"{PREFIX}accepted", f"{PREFIX}rejected")


@dp.append_flow(target="topics")
def balance_records() -> Any:
    rows = transforms.balances(spark.readStream.table("purchases"))
    return records.balance_records(rows, f"{PREFIX}balances", f"{PREFIX}alerts")


@dp.append_flow(target="topics")
def session_records() -> Any:
    return records.session_records(transforms.sessions(spark.readStream.table("purchases")), f"{PREFIX}sessions")


@dp.materialized_view
def months() -> Any:
    month = f.date_format("at", "yyyy-MM").alias("month")
    return spark.read.table("purchases").groupBy(month).agg(f.sum("cents").alias("cents"), f.count("*").alias("purchases"))
