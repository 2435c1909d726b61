"""Rows of the ledger as records of topics, and back: columns `topic`, `key` and `value`, as the sink takes them.

Owns: keys and values: the customer, and JSON. Does not own: the names of the topics. A query may write to several
topics: they become visible together, in the transaction of the batch.
"""

from typing import Any

from pyspark.sql import functions as f

from oncelog.pipeline.ledger.transforms import PURCHASE


def purchases_of(records: Any) -> Any:
    """Return the `PURCHASE` columns of records that `purchase_records` wrote."""
    return records.select(f.from_json(f.col("value").cast("string"), PURCHASE).alias("purchase")).select("purchase.*")


def purchase_records(checked: Any, accepted_topic: str, rejected_topic: str) -> Any:
    """Return each row of `checked` as a record in one of two topics: one query, one transaction a batch."""
    # A rejected record keeps its key; its value is base64, for it may be anything.
    rejected = f.struct("topic", "partition", "offset", "reason", f.base64("value").alias("value"))
    accepted = f.struct("id", "customer", "at", "cents", "late")
    is_rejected = f.col("reason").isNotNull()
    return checked.select(
        f.when(is_rejected, f.lit(rejected_topic)).otherwise(f.lit(accepted_topic)).alias("topic"),
        f.when(is_rejected, f.col("key")).otherwise(f.col("customer").cast("binary")).alias("key"),
        f.when(is_rejected, f.to_json(rejected)).otherwise(f.to_json(accepted)).cast("binary").alias("value"),
    )


def balance_records(balances: Any, balance_topic: str, alert_topic: str) -> Any:
    """Return the balance of each `BALANCE` row, and an alert for each level that it reached.

    Both come from one row, so the state behind it is kept once: a union of two queries would keep it twice.
    """
    balance = f.struct("customer", "cents", "purchases", "late_cents", "late_purchases")
    alerts = f.transform(
        "levels",
        lambda level: _record(alert_topic, f.struct("customer", level.alias("reached_cents"))),
    )
    records = f.explode(f.concat(f.array(_record(balance_topic, balance)), alerts))
    return _of_customers(balances.select("customer", records.alias("record")))


def session_records(sessions: Any, topic: str) -> Any:
    session = f.struct("customer", "opened", "closed", "cents", "purchases")
    return _of_customers(sessions.select("customer", _record(topic, session).alias("record")))


def _record(topic: str, value: Any) -> Any:
    return f.struct(f.lit(topic).alias("topic"), f.to_json(value).cast("binary").alias("value"))


def _of_customers(rows: Any) -> Any:
    """Return the records of `customer, record` rows. The types of all records are the same: a pipeline's sink takes no
    others."""
    return rows.select("record.topic", f.col("customer").cast("binary").alias("key"), "record.value")
